// Set before anything is drawn, so that the page never flashes in the other theme.
"use strict";
const kept = localStorage.getItem("theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
