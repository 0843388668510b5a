// The buttons of a lesson. One is held while its thing is shown; tapped it stays down until it is
// tapped again. The server hears of it again and again, so that a page that goes holds nothing.
import { made } from "./figures.js";

const AGAIN_MS = 100;
const TAP_MS = 400; // what is shorter is a tap
const UNDO = "BackSpace";
const FORGET = "Delete";

/** Shows the lesson in a section; `usable` says whether its buttons work at the moment. */
export function lessonButtons(section, usable, send) {
  const by = Math.random().toString(36).slice(2) || "page"; // tells this page from others
  const [list, line] = ["ol", "p"].map((tag) => section.querySelector(tag));
  const [undo, forget] = section.querySelectorAll("[data-key]");
  let keys = []; // of the classes
  let down = null; // the key that is held
  let since = 0;
  let timer = 0;

  const say = (key, still = true) => send({ type: "hold", key, by, down: still });

  function press(key) {
    const ends = down === key;
    release(true);
    if (ends || !usable()) return;
    [down, since] = [key, performance.now()];
    timer = setInterval(say, AGAIN_MS, key);
    say(key);
  }

  /** Lets the key go; one that was tapped stays down, unless that is `wanted`. */
  function release(wanted) {
    if (!wanted && performance.now() - since < TAP_MS) return;
    clearInterval(timer);
    if (down) say(down, false);
    down = null;
  }

  function button(key) {
    const parts = ["number", "name", "count"].map((className) => made("span", { className }));
    const one = made("button", { type: "button" }, parts);
    one.addEventListener("pointerdown", (event) => {
      one.setPointerCapture(event.pointerId); // so that it ends wherever the finger is lifted
      press(key);
    });
    for (const end of ["pointerup", "pointercancel"]) one.addEventListener(end, () => release(false));
    one.addEventListener("click", ({ detail }) => detail || press(key)); // by Enter or Space
    one.addEventListener("contextmenu", (event) => event.preventDefault()); // a long touch
    return made("li", {}, [one]);
  }

  for (const one of [undo, forget]) one.addEventListener("click", () => say(one.dataset.key));
  document.addEventListener("visibilitychange", () => release(true));

  return {
    /** Shows what the news say; null without a lesson. */
    show(lesson) {
      section.hidden = !lesson;
      if (!lesson) return release(true);
      if (list.children.length !== lesson.classes.length) {
        keys = lesson.classes.map(([key]) => key);
        list.replaceChildren(...keys.map(button));
      }
      lesson.classes.forEach((fields, index) => {
        const one = list.children[index].firstChild;
        one.setAttribute("aria-pressed", String(lesson.shown === fields[1]));
        fields.forEach((text, part) => { one.children[part].textContent = text; });
      });
      line.textContent = lesson.shown ? `taking ${lesson.shown}` : lesson.doing;
      undo.disabled = forget.disabled = !lesson.last;
      undo.textContent = lesson.last ? `Undo the last ${lesson.last}` : "Undo";
      forget.textContent = lesson.last ? `Take away ${lesson.last}` : "Take away";
      return null;
    },
    /** Whether a key of the keyboard is one of the lesson's. */
    down(key, repeated) {
      if (section.hidden || ![...keys, UNDO, FORGET].includes(key)) return false;
      if (!keys.includes(key)) say(key);
      else if (!repeated) press(key);
      return true;
    },
    up(key) {
      if (key === down) release(false);
    },
  };
}
