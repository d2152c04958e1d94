// The page works without this script: it only saves reloads, hides fields that do not apply, and remembers the theme.
"use strict";

const root = document.documentElement;
const form = document.getElementById("question");
const byId = (id) => document.getElementById(id);

const toggle = byId("theme");
toggle.hidden = false;
toggle.addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});

const WORDS = {
  share: ["% of your budget", null, null],
  approx: ["ε", "δ", "1e-6"],
  pure: ["ε", null, null],
  renyi: ["ε", "order λ", "2"],
  zcdp: ["ρ", null, null],
  gaussian: ["μ", null, null],
};

function fitSystems(reset) {
  const chosen = byId("column").selectedOptions[0];
  const allowed = chosen.dataset.systems.split("|");
  const system = byId("system");
  for (const option of system.options) option.hidden = option.disabled = !allowed.includes(option.value);
  if (!allowed.includes(system.value)) system.value = allowed[0];
  if (!reset) return;
  system.value = chosen.dataset.likely;
  for (const field of form.querySelectorAll("[data-for] input")) {
    const first = chosen.getAttribute("data-" + field.name.replaceAll("_", "-"));
    if (first !== null) field.value = first;
  }
}

function fitFields() {
  for (const field of form.querySelectorAll("[data-for]")) {
    field.hidden = !field.dataset.for.split("|").includes(byId("system").value);
  }
  const [strength, second, usual] = WORDS[byId("promise").value];
  byId("strength-label").textContent = strength;
  byId("second-field").hidden = second === null;
  byId("second-label").textContent = second ?? "";
  if (second !== null && byId("second").value === "") byId("second").value = usual;
  const share = byId("promise").value === "share";
  const slider = byId("slider");
  slider.min = share ? -1 : -3;
  slider.max = share ? 2 : 1;
  const value = Number(byId("strength").value);
  if (value > 0) slider.value = Math.log10(value);
}

let turn = 0;
let planning; // the plan under way: hung up on when something newer is sent, so that the server gives it up
async function send(from, action, parts, headers = {}) {
  const mine = ++turn;
  planning?.abort();
  planning = parts.includes("result") ? undefined : new AbortController();
  root.classList.add("busy");
  try {
    const response = await fetch(action, {
      method: "POST",
      body: new URLSearchParams(new FormData(from)),
      headers,
      redirect: "error",
      signal: planning?.signal,
    });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (mine !== turn && !parts.includes("result")) return false; // something newer was typed
    for (const part of parts) {
      const fresh = page.getElementById(part);
      if (fresh) byId(part).replaceChildren(...fresh.childNodes);
    }
    if (parts[0] === "plan") byId("said").textContent = document.querySelector("[data-said]")?.dataset.said ?? "";
    return page.getElementById(parts[0]) !== null;
  } catch {
    return false;
  } finally {
    if (mine === turn) root.classList.remove("busy");
  }
}

async function ask(from, action, button) {
  const words = button.textContent;
  button.disabled = true;
  button.textContent = "Working …";
  const done = await send(from, action, ["result", "budget", "history"]);
  button.disabled = false;
  button.textContent = words;
  if (!done) location.reload();
  byId("result").focus({ preventScroll: true });
  byId("result").scrollIntoView({ block: "start" });
}

let waiting = 0;
async function plan() {
  // First what has a closed form, then the mechanisms whose forecast takes a while.
  if (await send(form, form.action, ["plan"], { "X-Plan": "quick" })) await send(form, form.action, ["plan"], { "X-Plan": "whole" });
}
function planSoon() {
  clearTimeout(waiting);
  waiting = setTimeout(plan, 250);
}

if (form) {
  byId("slider-field").hidden = false;
  if (byId("plan").querySelector(".pending")) send(form, form.action, ["plan"], { "X-Plan": "whole" });
  fitSystems(false);
  fitFields();
  form.addEventListener("input", (event) => {
    if (event.target.id === "slider") byId("strength").value = Number((10 ** event.target.value).toPrecision(2));
    if (event.target.id === "column") fitSystems(true);
    fitFields();
    planSoon();
  });
  document.addEventListener("click", (event) => {
    const pick = event.target.closest("[data-mechanism]");
    if (!pick) return;
    byId("mechanism").value = pick.dataset.mechanism;
    planSoon();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    const asking = event.submitter && event.submitter.id === "ask";
    if (!asking) return plan();
    await ask(form, event.submitter.formAction, byId("ask"));
    send(form, form.action, ["plan"], { "X-Plan": "whole" });
  });
}

// Questions by verb: only the fields of the chosen verb, and what the share would pay for.
const asking = byId("asking");

function goesWith(element, verb) {
  return !element.dataset.verbs || element.dataset.verbs.split("|").includes(verb);
}

function fitVerb() {
  const verb = byId("verb").value;
  for (const element of asking.querySelectorAll("[data-verbs]")) {
    const fits = goesWith(element, verb);
    element.hidden = !fits;
    if (["OPTION", "BUTTON"].includes(element.tagName)) element.disabled = !fits;
  }
  for (const select of asking.querySelectorAll("select[data-columns]")) {
    const blank = select.querySelector('option[value=""]');
    const chosen = select.dataset.chosen || select.querySelector("option[selected]");
    if (blank && !blank.disabled && !chosen) select.value = ""; // what another verb needs is not asked of this one
    if (select.selectedOptions[0]?.disabled) select.value = [...select.options].find((o) => !o.disabled)?.value ?? "";
  }
}

function sayShare() {
  const help = byId("spend-help");
  const share = Number(byId("spend").value) / 100;
  const many = Math.floor((Number(help.dataset.left) * (1 + 1e-9)) / share);
  if (!(share > 0)) return;
  help.textContent = many
    ? `What is left pays for ${many === 1 ? "one such answer" : `about ${many} such answers`}. Paying twice as much narrows the ranges by up to about a third, and hardly where privacy adds little to them.`
    : "More than what is left.";
}

function sayLeft() {
  const left = document.querySelector("#budget [data-left]");
  if (left && byId("spend-help")) byId("spend-help").dataset.left = left.dataset.left;
}

if (asking) {
  fitVerb();
  const slider = byId("spend-slider");
  if (slider) {
    slider.hidden = false;
    slider.value = Math.log10(Number(byId("spend").value) || 5);
    sayShare();
  }
  asking.addEventListener("input", (event) => {
    if (event.target === slider) byId("spend").value = Number((10 ** slider.value).toPrecision(2));
    if (event.target.id === "spend" && Number(event.target.value) > 0) slider.value = Math.log10(event.target.value);
    if ("columns" in event.target.dataset) event.target.dataset.chosen = "yes";
    if (event.target.id === "verb") fitVerb();
    if (slider) sayShare();
  });
  asking.addEventListener("submit", async (event) => {
    event.preventDefault();
    const pressed = event.submitter ?? byId("ask");
    await ask(asking, pressed.hasAttribute("formaction") ? pressed.formAction : asking.action, pressed);
    sayLeft();
    if (slider) sayShare();
  });
  document.addEventListener("submit", async (event) => {
    if (event.target === asking || event.target.method === "get" || !event.target.closest("#result")) return;
    event.preventDefault();
    await ask(event.target, event.target.action, event.submitter);
    sayLeft();
    if (slider) sayShare();
  });
}
