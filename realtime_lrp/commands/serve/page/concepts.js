// Channels of a layer: for each its share, where it looked in the picture, and the pictures of the
// gallery, which are fetched once.
import { drawOn } from "./canvas.js";
import { made } from "./figures.js";

const MOST_KEPT = 200; // channels whose row is kept, with its pictures
const TILE = 100 / 96; // width of one with the gap behind it, as a part of its height
const RETRY_MS = 2000; // until pictures that did not come are asked for again

let asked = 0; // makes each address another one: as long as it is open, a page keeps pictures by theirs

/** Shows the channels in a section; `usable` says whether a row can be clicked at the moment. `show`
 * takes a message and the JPEG of its maps, `forget` forgets the gallery's pictures. */
export function conceptRows(section, usable, follow) {
  const [heading, why, list] = ["h2", "p", "ol"].map((tag) => section.querySelector(tag));
  const kept = new Map(); // "layer channel" -> its row
  let newest = 0;

  function row(layer, { channel, examples }) {
    const name = `${layer} ${channel} ${examples}`;
    if (kept.has(name)) return kept.get(name);
    const parts = [
      made("canvas", { className: "own", ariaHidden: "true" }), made("span", { className: "name" }),
      made("span", { className: "percent" }),
      made("span", { className: "track" }, [made("span", { className: "fill" })]),
    ];
    if (examples) parts.push(pictures(layer, channel, () => kept.delete(name)));
    const button = made("button", { type: "button" }, parts);
    button.addEventListener("click", () => {
      if (usable()) follow(channel);
    });
    kept.set(name, made("li", {}, [button]));
    if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
    return kept.get(name);
  }

  /** Writes what a row says. */
  function fill(item, entry, fields) {
    const button = item.firstChild;
    button.setAttribute("aria-pressed", String(entry.followed));
    button.setAttribute("aria-disabled", String(!usable()));
    for (const name of ["name", "percent"]) {
      const part = button.querySelector(`.${name}`);
      if (part.textContent !== entry[name]) part.textContent = entry[name];
    }
    const bar = button.querySelector(".fill");
    bar.style.width = `${100 * entry.bar}%`;
    bar.classList.toggle("against", entry.against);
    button.classList.toggle("pictureless", fields.with_pictures && !entry.examples);
  }

  return {
    async show(fields, jpeg) {
      const number = ++newest;
      section.hidden = false;
      heading.textContent = fields.layer ? `Channels of ${fields.layer}` : "Channels";
      if (why.textContent !== fields.why) why.textContent = fields.why;
      const items = fields.rows.map((entry) => row(fields.layer, entry));
      const focused = document.activeElement;
      items.forEach((item, index) => { // only those that changed: the others keep the focus
        if (list.children[index] !== item) list.insertBefore(item, list.children[index] ?? null);
      });
      while (list.children.length > items.length) list.lastChild.remove();
      if (list.contains(focused)) focused.focus({ preventScroll: true }); // its row has been moved
      items.forEach((item, index) => fill(item, fields.rows[index], fields));
      if (!jpeg.byteLength) return;
      const maps = await createImageBitmap(new Blob([jpeg], { type: "image/jpeg" })).catch(() => null);
      if (maps && number === newest) {
        const width = maps.width / items.length; // they stand side by side
        items.forEach((item, index) => {
          drawOn(item.querySelector("canvas"), maps, width, maps.height, index * width);
        });
      }
      maps?.close();
    },
    hide() {
      newest += 1;
      section.hidden = true;
      list.replaceChildren();
    },
    forget: () => kept.clear(),
  };
}

/** The gallery's pictures of a channel, as large as in other rows, however few there are. */
function pictures(layer, channel, failed) {
  const src = `gallery.jpg?${new URLSearchParams({ layer, channel, asked: asked += 1 })}`;
  const image = made("img", { className: "examples", alt: "Pictures that it answers to", src });
  image.onload = () => {
    image.style.setProperty("--pictures", image.naturalWidth / (image.naturalHeight * TILE));
  };
  image.onerror = () => setTimeout(failed, RETRY_MS);
  return image;
}
