// The commands of the view: found by typing a few words, or done by a key.
import { made } from "./figures.js";

const [box, typed, list] = ["box", "typed", "commands"].map((id) => document.getElementById(id));
const own = new Map([...document.querySelectorAll("[data-own]")].map((one) => [one.dataset.own, one]));
let commands = []; // keys in words, meaning, name, keys

/** Takes the server's commands; those that the page does by itself have its words. */
export function takeCommands(rows) {
  commands = rows.map(([pressed, meaning, name, keys]) => [pressed, own.get(name)?.title || meaning, name, keys]);
  showFound();
}

export const hasCommands = () => commands.length > 0;

/** The name of the command of a key, undefined if there is none. */
export const commandOf = (key) => commands.find(([, , , keys]) => keys.includes(key))?.[2];

/** Does a command; `send` takes the message of one that the server does. */
export function choose(name, send) {
  box.close();
  const element = own.get(name);
  if (!element) send({ type: "do", name });
  else if (element.matches("input")) element.focus();
  else element.click();
}

/** Lets people find commands in the box, which `opens` it. */
export function findIn(opens, send) {
  opens.addEventListener("click", () => {
    typed.value = "";
    showFound();
    box.showModal();
    typed.focus();
  });
  list.addEventListener("click", ({ target }) => {
    const row = target.closest("button");
    if (row) choose(row.value, send);
  });
  typed.addEventListener("input", showFound);
  typed.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // else it presses the button that has the focus then
    list.firstChild?.click();
  });
}

/** The commands of which some word begins with each typed word; those of whole words, then those with
 * few words, come first, as in `view/keys.py`. */
function showFound() {
  const wanted = wordsOf(typed.value);
  const ranked = commands.map((row) => [rankOf(row, wanted), row]).filter(([rank]) => rank !== null);
  if (wanted.length) ranked.sort(([one], [other]) => one - other);
  list.replaceChildren(...ranked.map(([, [keys, meaning, name]]) => (
    made("button", { type: "button", className: "key", value: name }, [
      made("span", { textContent: meaning }), made("kbd", { textContent: keys }),
    ]))));
}

function rankOf([, meaning, name], wanted) {
  const [shown, named] = [wordsOf(meaning), wordsOf(name)];
  let rank = shown.length / 100;
  for (const word of wanted) {
    const whole = [word, word.replace(/s$/, "")];
    if (whole.some((one) => shown.includes(one))) continue;
    const begins = shown.some((one) => one.startsWith(word));
    if (!begins && !named.some((one) => one.startsWith(word) || whole.includes(one))) return null;
    rank += begins ? 1 : 2;
  }
  return rank;
}

const wordsOf = (text) => text.toLowerCase().match(/[^\W_]+/g) ?? [];
