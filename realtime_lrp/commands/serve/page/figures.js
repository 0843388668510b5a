// The figures beside the picture: the server's rows, bars and legends as elements.

let drawnBlocks = "";

/** Draws the blocks of figures, entries as `messages.py` makes them, if they have changed. A click on
 * the line of a class is told to `choose`, if there is one. */
export function showBlocks(element, blocks, choose) {
  element.onclick = choose ? ({ target }) => {
    const line = target.closest("[data-class]");
    if (line) choose(line.dataset.class);
  } : null;
  const text = JSON.stringify(blocks);
  if (text === drawnBlocks) return;
  drawnBlocks = text;
  element.replaceChildren(...blocks.map((block) => made("div", { className: "block" },
    block.map((entry) => ENTRIES[entry.kind](entry)))));
}

const ENTRIES = {
  row: ({ name, value, warn }) => made("p", { className: warn ? "row warn" : "row" }, [
    made("span", { textContent: name }), made("span", { textContent: value }),
  ]),
  bar: ({ name, share, percent, before, scale, colour }) => {
    const track = made("span", { className: "track" }, [made("span", { className: "fill" })]);
    track.firstChild.style.width = `${100 * share}%`;
    if (colour) track.firstChild.style.background = `rgb(${colour})`;
    if (before !== null) {
      const mark = made("span", { className: "before" });
      mark.style.left = `${100 * before}%`;
      track.append(mark);
    }
    const line = made("div", { className: scale > 1 ? "bar large" : "bar" }, [
      made("span", { textContent: name }), made("span", { textContent: percent }), track,
    ]);
    if (name) line.dataset.class = name;
    return line;
  },
  headline: (entry) => {
    const bar = ENTRIES.bar({ ...entry, name: "" });
    const percent = made("p", { textContent: entry.percent });
    bar.replaceChildren(bar.lastChild);
    return made("div", { className: "headline" }, [kept(entry.name, entry.longest), percent, bar]);
  },
  line: ({ text, longest, warn }) => made("div", { className: warn ? "line warn" : "line" }, [kept(text, longest)]),
  legend: ({ low, high, colours }) => {
    const colour = made("span", { className: "colours" });
    colour.style.background = `linear-gradient(to right, ${colours.join(", ")})`;
    return made("p", { className: "legend" }, [
      made("span", { textContent: low }), colour, made("span", { textContent: high }),
    ]);
  },
  paragraph: ({ head, text, scale }) => made("p", { className: scale > 1 ? "said" : "" }, [
    made("strong", { textContent: head }), ` ${text}`,
  ]),
};

/** A text at the lower end of the room that the longest one takes, so that another moves no row. */
function kept(text, longest) {
  const room = made("span", { className: "room", textContent: longest });
  room.setAttribute("aria-hidden", "true");
  return made("p", { className: "kept" }, [made("span", { textContent: text }), room]);
}

/** An element with properties and children. */
export function made(tag, properties, children = []) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
