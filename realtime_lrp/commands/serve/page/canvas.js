// Canvases: drawing on them, painting patches on the picture with mouse or finger, recording a film.

const STROKE_MS = 15; // at least between two strokes: the server limits messages
const POINT_MS = 60; // at least between two places that the pointer is over
const DRAG = 4; // pixels that the pointer moves at least to paint; less is a click
const TYPES = ["video/mp4;codecs=avc1", "video/webm;codecs=vp9", "video/webm"]; // of a film
const FPS = 30;

/** Draws a picture, or as much of it from `x` on, on a canvas that gets this size. */
export function drawOn(canvas, picture, width, height, x = 0) {
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  canvas.getContext("2d", { alpha: false }).drawImage(picture, x, 0, width, height, 0, 0, width, height);
}

/** Sends a stroke for each movement while the brush is down; fingers paint where the canvas has the
 * class `painting`. `outline` is the circle around what the brush covers, `radius` a share of the
 * picture's shorter side, 0 for no circle. A drag with Shift, or with the class `framing`, draws a
 * rectangle. Where it `points`, what the mouse is over is sent. Returns what draws the circle again. */
export function paintOn(canvas, allowed, outline, radius, send, points) {
  let pointer = null; // the last event of a pointer over the picture
  let last = null; // where the brush is, while it is down
  let strokeAt = 0;
  let pointing = null; // the timer that says what the mouse is over
  let moved = false;
  let covers = true;
  let corner = null; // the event that began a rectangle

  canvas.addEventListener("pointerdown", (event) => {
    if (!allowed() || touches(event)) return;
    corner = event.shiftKey || canvas.matches(".framing") ? event : null;
    last = position(event);
    moved = false;
    covers = event.button !== 2;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    pointer = event;
    showOutline();
    if (!last) point(event);
    if (!last || corner || performance.now() - strokeAt <= STROKE_MS) return;
    const end = position(event);
    moved ||= Math.hypot(end[0] - last[0], end[1] - last[1]) >= DRAG;
    if (moved) stroke(end);
  });
  canvas.addEventListener("pointerup", (event) => {
    const clicks = covers && event.pointerType !== "touch"; // on a box it shows that one alone
    if (last && corner) send({ type: "frame", start: last, end: position(event) });
    else if (last && !moved && clicks) send({ type: "click", at: last, paints: true });
    else if (last) stroke(position(event));
    last = corner = null;
    showOutline();
  });
  canvas.addEventListener("click", (event) => {
    if (allowed() && touches(event)) send({ type: "click", at: position(event), paints: false });
  });
  canvas.addEventListener("pointercancel", () => { last = corner = null; });
  canvas.addEventListener("pointerleave", () => {
    pointer = null;
    showOutline();
    clearTimeout(pointing);
    pointing = null;
    if (points() && allowed()) send({ type: "point", at: null });
  });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());

  /** Says what the mouse is over, soon: that is explained. */
  function point(event) {
    if (!points() || !allowed() || event.pointerType === "touch") return;
    pointing ??= setTimeout(() => {
      pointing = null;
      if (pointer) send({ type: "point", at: position(pointer) });
    }, POINT_MS);
  }

  /** Whether a finger touches the picture, and does not paint. */
  const touches = (event) => event.pointerType === "touch" && !canvas.matches(".painting, .framing");

  function stroke(end) {
    send({ type: "stroke", start: last, end, cover: covers });
    last = end;
    strokeAt = performance.now();
  }

  /** Puts the circle under the pointer, or lays the rectangle up to it. */
  function showOutline() {
    outline.classList.toggle("frame", Boolean(corner));
    const rests = !pointer || (pointer.pointerType === "touch" && !last);
    outline.hidden = rests || !allowed() || (!radius() && !corner);
    if (outline.hidden) return;
    const { left, top } = canvas.getBoundingClientRect();
    const around = radius() * Math.min(canvas.width, canvas.height) * drawnScale();
    const [x, y] = ["clientX", "clientY"].map((axis) => (corner
      ? [corner[axis], pointer[axis]].sort((one, other) => one - other)
      : [pointer[axis] - around, pointer[axis] + around]));
    outline.style.width = `${x[1] - x[0]}px`;
    outline.style.height = `${y[1] - y[0]}px`;
    outline.style.left = `${x[0] - left + canvas.offsetLeft}px`;
    outline.style.top = `${y[0] - top + canvas.offsetTop}px`;
  }

  /** How large a pixel of the canvas is on the page. */
  function drawnScale() {
    const { width, height } = canvas.getBoundingClientRect();
    const fit = getComputedStyle(canvas).objectFit === "cover" ? Math.max : Math.min;
    return fit(width / canvas.width, height / canvas.height);
  }

  /** Column and row of the picture's canvas, which may be drawn larger or smaller, with margins
   * or cut off. */
  function position(event) {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const scale = drawnScale();
    const x = (event.clientX - left - (width - scale * canvas.width) / 2) / scale;
    const y = (event.clientY - top - (height - scale * canvas.height) / 2) / scale;
    const limited = (value) => Math.round(Math.min(Math.max(value, -9999), 9999));
    return [limited(x), limited(y)];
  }

  return showOutline;
}

/** Whether this browser can record. */
export const canRecord = Boolean(window.MediaRecorder && HTMLCanvasElement.prototype.captureStream);

/** The time as names of files have it. */
export function timestamp() {
  return new Date().toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-");
}

/** Records a canvas until the returned function is called; `done` gets the film, which the server never
 * stores, and a name for it. */
export function record(canvas, done) {
  const mimeType = TYPES.find((type) => MediaRecorder.isTypeSupported(type));
  const recorder = new MediaRecorder(canvas.captureStream(FPS), { mimeType });
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  recorder.onstop = () => {
    const type = recorder.mimeType.split(";")[0];
    done(new Blob(parts, { type }), `realtime_lrp-${timestamp()}.${type.split("/")[1]}`);
  };
  recorder.start(1000);
  return () => {
    recorder.stop();
    return null;
  };
}
