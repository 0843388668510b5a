// The controls, the figures and the keys. The state is the server's: controls send a message and
// then show what the news say.
import { openCamera, whyNoCamera } from "./camera.js";
import { connect } from "./link.js";

const at = (id) => document.getElementById(id);
const canvas = at("view");
const METER_MS = 2000;
const STROKE_MS = 15; // at least between two strokes: the server limits messages
const PRESSED = { freeze: "frozen", tiled: "tiled" };
const CHOSEN = ["method", "composite", "style", "opacity", "target"];
const KEY_NAMES = {
  " ": "space", Backspace: "BackSpace", Delete: "Delete", PageDown: "Page_Down",
  PageUp: "Page_Up", ArrowRight: "Right", ArrowDown: "Down", ArrowLeft: "Left", ArrowUp: "Up",
  F6: "F6",
};
const OWN_KEYS = {
  s: () => at("snapshot").click(), z: () => at("fill").click(),
  l: () => at("target").focus(), h: showHelp, "?": showHelp, F1: showHelp,
};

let control = false;
const shownAt = [];

let camera = null; // this device's own, while it is used

const { send, sendPicture, hold } = connect(canvas, {
  role: onRole, choices: onChoices, news: onNews, map: onMap, lost, shown,
});

function onRole(role) {
  control = role.control;
  camera?.restart();
  at("controls").hidden = !control;
  document.body.classList.toggle("watching", !control);
  if (role.watch) {
    const address = new URL(location.pathname, location.href);
    address.searchParams.set("token", role.watch);
    at("watch").href = address;
    at("watch").textContent = address;
  }
}

function onChoices(choices) {
  fillSelect(at("method"), choices.methods);
  fillSelect(at("composite"), choices.composites);
  fillSelect(at("style"), choices.styles);
  at("targets").replaceChildren(...choices.targets.map((name) => made("option", { value: name })));
  at("key-table").replaceChildren(...choices.keys.flatMap(([heading, rows]) => [
    made("h3", { textContent: heading }),
    made("dl", {}, rows.flatMap(([keys, meaning]) => [
      made("dt", { textContent: keys }), made("dd", { textContent: meaning }),
    ])),
  ]));
}

function fillSelect(select, names) {
  select.replaceChildren(...names.map((name) => made("option", { value: name, textContent: name })));
}

// What the news say

function onNews(news) {
  for (const id of CHOSEN) {
    if (document.activeElement !== at(id)) at(id).value = news[id];
  }
  at("composite").disabled = news.method !== "lrp";
  for (const [id, key] of Object.entries(PRESSED)) {
    at(id).setAttribute("aria-pressed", String(news[key]));
  }
  at("uncover").disabled = !news.covered;
  at("answers").classList.toggle("presenting", news.presenting);
  at("notice").textContent = [news.trouble, news.notice].filter(Boolean).join("\n");
  if (!camera) {
    show(at("answers"), [...news.right, ...news.left]);
    at("figures").dataset.maps = news.maps;
  }
  showFigures();
}

let drawnBlocks = "";
let blocksBefore = 0;

/**
 * Draws the blocks of figures, if they have changed. Rows come and go: the height stays that of the
 * most rows, so that what stands below does not jump under a finger.
 */
function show(element, blocks) {
  const text = JSON.stringify(blocks);
  if (text === drawnBlocks) return;
  drawnBlocks = text;
  if (blocks.length !== blocksBefore) element.style.minHeight = "";
  blocksBefore = blocks.length;
  element.replaceChildren(...blocks.map((block) => made("div", { className: "block" },
    block.map((entry) => ENTRIES[entry.kind](entry)))));
  element.style.minHeight = `${element.offsetHeight}px`;
}

const ENTRIES = {
  row: ({ name, value, warn }) => made("p", { className: warn ? "row warn" : "row" }, [
    made("span", { textContent: name }), made("span", { textContent: value }),
  ]),
  bar: ({ name, share, percent, before, scale }) => {
    const track = made("span", { className: "track" }, [made("span", { className: "fill" })]);
    track.firstChild.style.width = `${100 * share}%`;
    if (before !== null) {
      const mark = made("span", { className: "before" });
      mark.style.left = `${100 * before}%`;
      track.append(mark);
    }
    return made("div", { className: scale > 1 ? "bar first" : "bar" }, [
      made("span", { textContent: name }), made("span", { textContent: percent }), track,
    ]);
  },
  legend: ({ low, high, colours }) => {
    const colour = made("span", { className: "colours" });
    colour.style.background = `linear-gradient(to right, ${colours.join(", ")})`;
    return made("p", { className: "legend" }, [
      made("span", { textContent: low }), colour, made("span", { textContent: high }),
    ]);
  },
  paragraph: ({ head, text }) => made("p", {}, [
    made("strong", { textContent: head }), ` ${text}`,
  ]),
};

function made(tag, properties, children = []) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// Figures

function shown(latency) {
  shownAt.push(performance.now());
  at("figures").dataset.latency = latency;
}

function showFigures() {
  const { dataset } = at("figures");
  const rate = ratePerS(shownAt);
  if (camera) {
    dataset.maps = rate;
    dataset.latency = Math.round(camera.age());
    at("figures").textContent = `this device's camera · ${rate} maps/s · ` +
      `the map is ${dataset.latency} ms old`;
  } else {
    dataset.shown = rate;
    at("figures").textContent = `${rate} pictures/s · ${dataset.maps} maps/s · ` +
      `${Math.round(dataset.latency)} ms from camera to screen`;
  }
}

/** How often something happened each second, lately. */
function ratePerS(times) {
  const now = performance.now();
  while (times.length && now - times[0] > METER_MS) times.shift();
  return times.length > 1 ? (1000 * (times.length - 1) / (now - times[0])).toFixed(1) : "0";
}

function lost(sentence) {
  document.body.classList.toggle("lost", sentence !== "");
  at("notice").textContent = sentence;
}

// This device's camera

at("camera").addEventListener("click", async () => {
  at("camera").disabled = true;
  try {
    if (camera) closeCamera();
    else await startCamera();
  } catch (error) {
    at("camera-notice").textContent = whyNoCamera(error);
  }
  at("camera").disabled = false;
});

async function startCamera() {
  at("camera-notice").textContent = "";
  if (!navigator.mediaDevices) throw new Error("no mediaDevices");
  hold(true);
  try {
    camera = await openCamera(canvas, sendPicture, closeCamera);
  } catch (error) {
    hold(false);
    throw error;
  }
  changeCamera();
}

function closeCamera() {
  camera?.stop();
  camera = null;
  hold(false);
  changeCamera();
}

function changeCamera() {
  at("camera").setAttribute("aria-pressed", String(camera !== null));
  at("camera-notice").textContent = "";
  shownAt.length = 0;
}

function onMap(fields, png) {
  if (!camera) return;
  at("camera-notice").textContent = fields.reason ?? "";
  if (fields.blocks) show(at("answers"), fields.blocks);
  if (png.byteLength) shownAt.push(performance.now());
  camera.take(fields, png);
}

// Controls

for (const id of CHOSEN) {
  at(id).addEventListener(id === "opacity" ? "input" : "change", () => {
    const value = id === "opacity" ? Number(at(id).value) : at(id).value.trim();
    if (value !== "") send({ type: "choice", [id]: value });
    if (id === "target") at(id).blur();
  });
}
at("target").addEventListener("focus", () => at("target").select());
for (const [id, action] of Object.entries({ freeze: "freeze", tiled: "panels", uncover: "uncover" })) {
  at(id).addEventListener("click", () => send({ type: "action", action }));
}
for (const [id, file] of Object.entries({ snapshot: "snapshot.png", data: "snapshot.npz" })) {
  at(id).addEventListener("click", () => download(file));
}
at("paint").addEventListener("click", () => {
  const painting = canvas.classList.toggle("painting");
  at("paint").setAttribute("aria-pressed", String(painting));
});
at("show-code").addEventListener("click", () => {
  at("code-picture").src = `qr.svg?address=${encodeURIComponent(at("watch").href)}`;
  at("code").showModal();
});
at("fill").hidden = !document.fullscreenEnabled;
at("help").addEventListener("click", showHelp);
at("fill").addEventListener("click", () => {
  if (document.fullscreenElement) document.exitFullscreen();
  else at("stage").requestFullscreen?.().catch(() => {});
});

/** Saves a file of the server; says why where there is none. */
async function download(file) {
  try {
    const answer = await fetch(file, { cache: "no-store" });
    if (!answer.ok) {
      at("notice").textContent = (await answer.text()).replace(/^\d+: /, "");
      return;
    }
    const name = /filename="([\w.-]+)"/.exec(answer.headers.get("Content-Disposition"))[1];
    const address = URL.createObjectURL(await answer.blob());
    made("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  } catch {
    at("notice").textContent = "The snapshot did not arrive. Try again.";
  }
}

function showHelp() {
  if (at("keys").open) at("keys").close();
  else at("keys").showModal();
}

// Keys

document.addEventListener("keydown", (event) => {
  if (!control || event.ctrlKey || event.altKey || event.metaKey || at("keys").open || at("code").open) return;
  if (!at("keys-on").checked || takesKeys(event.target, event.key)) return;
  const key = KEY_NAMES[event.key] ?? (event.key.length === 1 ? event.key.toLowerCase() : event.key);
  if (OWN_KEYS[key]) {
    OWN_KEYS[key]();
  } else if (KEY_NAMES[event.key] || event.key.length === 1) {
    send({ type: "key", key });
  } else {
    return;
  }
  event.preventDefault();
});

/** Whether a key is for the element that has the focus. */
function takesKeys(element, key) {
  if (element.matches("input, select, textarea")) return true;
  return element.matches("button, a, [href]") && (key === " " || key === "Enter");
}

// Painting

let last = null; // where the brush is, while it is down
let strokeAt = 0;
let covers = true;

canvas.addEventListener("pointerdown", (event) => {
  if (!control || camera || (event.pointerType === "touch" && !canvas.classList.contains("painting"))) return;
  last = position(event);
  canvas.setPointerCapture(event.pointerId);
  stroke(event, last);
});
canvas.addEventListener("pointermove", (event) => {
  if (last && performance.now() - strokeAt > STROKE_MS) stroke(event, position(event));
});
canvas.addEventListener("pointerup", (event) => {
  if (last) stroke(event, position(event));
  last = null;
});
canvas.addEventListener("pointercancel", () => { last = null; });
canvas.addEventListener("contextmenu", (event) => event.preventDefault());

function stroke(event, end) {
  if (event.type === "pointerdown") covers = event.button !== 2;
  send({ type: "stroke", start: last, end, cover: covers });
  last = end;
  strokeAt = performance.now();
}

/** Column and row of the picture's canvas, which may be drawn larger or smaller, with margins. */
function position(event) {
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const scale = Math.min(width / canvas.width, height / canvas.height);
  const x = (event.clientX - left - (width - scale * canvas.width) / 2) / scale;
  const y = (event.clientY - top - (height - scale * canvas.height) / 2) / scale;
  const limited = (value) => Math.round(Math.min(Math.max(value, -9999), 9999));
  return [limited(x), limited(y)];
}

// The token is in a cookie by now: whoever sees the screen need not read it.
history.replaceState(null, "", location.pathname);
