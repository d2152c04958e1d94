// Two sliders on one curve: move one, and the other follows. Without this script the numbers stand in a table.
"use strict";

const box = document.getElementById("balance");
if (box) {
  const points = JSON.parse(box.dataset.points);
  const part = (id) => document.getElementById(id);
  const logs = points.map((p) => ({ ...p, share: Math.log(p.share), width: Math.log(p.width) }));
  const last = logs.length - 1;
  box.querySelector(".balance-sliders").hidden = false;

  // Widths fall with the share, and risks rise, but where the noise changes; the first place that reaches a value counts.
  function at(name, value) {
    const up = logs[last][name] >= logs[0][name];
    for (let i = 1; i <= last; i++) {
      const [from, to] = [logs[i - 1][name], logs[i][name]];
      if (up ? value <= to : value >= to) return i - 1 + (to === from ? 1 : Math.min(Math.max((value - from) / (to - from), 0), 1));
    }
    return last;
  }
  function mixed(name, place) {
    const i = Math.min(Math.floor(place), last - 1);
    return logs[i][name] + (logs[i + 1][name] - logs[i][name]) * (place - i);
  }
  const digits = (value) => Number(value.toPrecision(3)).toString();
  function span(name) {
    return [logs[0][name], logs[last][name]];
  }
  function show(place, moved) {
    const values = Object.fromEntries(Object.keys(logs[0]).map((name) => [name, mixed(name, place)]));
    for (const [id, name] of [["accuracy", "width"], ["risk", "risk"]]) {
      const [first, end] = span(name);
      const slider = part(id);
      if (slider !== moved) slider.value = end === first ? 0 : (1000 * (values[name] - first)) / (end - first);
    }
    part("accuracy-said").value = digits(Math.exp(values.width));
    const people = (Math.ceil(10 * values.risk - 1e-6) / 10).toFixed(1);
    part("risk-said").value = people;
    part("share-said").value = digits(100 * Math.exp(values.share)) + "\u00a0%";
    part("not-covered").hidden = Math.exp(values.share) <= Number(box.dataset.left) * (1 + 1e-9);
    part("accuracy").setAttribute("aria-valuetext", "± " + digits(Math.exp(values.width)));
    part("risk").setAttribute("aria-valuetext", people + " of 1,000 people");
    for (const [id, name] of [["dot-width", "accuracy"], ["dot-risk", "danger"]]) {
      part(id).setAttribute("cx", values.x);
      part(id).setAttribute("cy", values[name]);
    }
  }
  for (const [id, name] of [["accuracy", "width"], ["risk", "risk"]]) {
    part(id).addEventListener("input", (event) => {
      const [first, end] = span(name);
      show(at(name, first + ((end - first) * event.target.value) / 1000), event.target);
    });
  }
  show(Number(box.dataset.start), null);
}
