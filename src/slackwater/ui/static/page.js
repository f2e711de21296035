// Keeps an open page current: asks for its middle again and again, and changes what differs.
"use strict";

const FRAGMENT = "X-Slackwater-Fragment";
const GONE = "slackwater ui does not answer: it has ended, or is busy. What follows is old. If it has ended, start it again and open the new address.";
const STEPS = [[86400, "d"], [3600, "h"], [60, "min"]];

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const pause = document.getElementById("pause");
const period = 1000 * Number(document.body.dataset.live);

let etag = "";
let asking = null;
let paused = false;

function describeAge(seconds) {
  for (const [size, unit] of STEPS) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${seconds} s`;
}

function updateAges() {
  const now = Date.now();
  for (const each of document.querySelectorAll("time[data-age]")) {
    const then = Date.parse(each.dateTime);
    if (Number.isNaN(then)) continue;
    const text = describeAge(Math.max(0, Math.floor((now - then) / 1000)));
    if (each.textContent !== text) each.textContent = text;
  }
}

function tellConnection(sentence) {
  if (connection.textContent === sentence) return;
  connection.textContent = sentence;
  connection.classList.toggle("lost", sentence !== "");
}

function keepsWhatThePersonDid(name, node) {
  return !(name === "open" && node.tagName === "DETAILS") && !(name === "value" && node === document.activeElement);
}

function morph(html) {
  Idiomorph.morph(main, html, {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    callbacks: { beforeAttributeUpdated: keepsWhatThePersonDid },
  });
  updateAges();
}

async function refresh() {
  if (asking) asking.abort();
  const mine = new AbortController();
  asking = mine;
  try {
    const headers = { [FRAGMENT]: "1" };
    if (etag) headers["If-None-Match"] = etag;
    const answer = await fetch(location.href, { headers, signal: mine.signal });
    tellConnection("");
    if (answer.status === 304) return;
    const text = await answer.text();
    etag = answer.headers.get("ETag") || "";
    morph(text);
    main.dataset.updates = String(1 + Number(main.dataset.updates || 0));
  } catch (error) {
    if (error.name !== "AbortError") tellConnection(GONE);
  } finally {
    if (asking === mine) asking = null;
  }
}

async function keepCurrent() {
  if (!paused && !document.hidden && !asking) await refresh();
  setTimeout(keepCurrent, period);
}

function showAtOnce(form) {
  const said = new URLSearchParams(new FormData(form));
  history.replaceState(null, "", `?${said}`);
  etag = "";
  refresh();
}

document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (form && "instant" in form.dataset) showAtOnce(form);
});

document.addEventListener("submit", (event) => {
  if (!("instant" in event.target.dataset)) return;
  event.preventDefault();
  showAtOnce(event.target);
});

if (period > 0) {
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Continue updates" : "Pause updates";
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !paused) refresh();
  });
  setTimeout(keepCurrent, period);
  setInterval(() => { if (!paused) updateAges(); }, 1000);
}
updateAges();
