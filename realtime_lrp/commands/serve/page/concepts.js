// Channels of a layer: for each its share, where it looked in the picture, and the pictures of the
// gallery, which are fetched once.
import { made } from "./figures.js";

const MOST_KEPT = 200; // channels whose pictures are kept
const MOST_EXAMPLES = 6; // pictures of a channel
const TILE = 100 / 96; // width of one with the gap behind it, as a part of its height
const RETRY_MS = 2000; // until pictures that did not come are asked for again

/** Shows the channels in a section; `usable` says whether a row can be clicked at the moment. `show`
 * takes a message and the JPEG of its maps, `forget` forgets the gallery's pictures. */
export function conceptRows(section, usable, follow) {
  const [heading, why, list] = ["h2", "p", "ol"].map((tag) => section.querySelector(tag));
  const kept = new Map(); // "layer channel" -> address of its pictures, or when they did not come
  let newest = 0;

  /** The address of a channel's pictures; null while there is none. */
  async function examples(layer, channel) {
    const name = `${layer} ${channel}`;
    const known = kept.get(name);
    if (typeof known === "string") return known;
    if (known && performance.now() - known < RETRY_MS) return null;
    kept.set(name, performance.now());
    const query = new URLSearchParams({ layer, channel });
    const answer = await fetch(`gallery.jpg?${query}`, { cache: "no-store" }).catch(() => null);
    if (!answer?.ok) return null;
    const address = URL.createObjectURL(await answer.blob());
    kept.set(name, address);
    if (kept.size > MOST_KEPT) forget(kept.keys().next().value);
    return address;
  }

  function forget(name) {
    const address = kept.get(name);
    if (typeof address === "string") URL.revokeObjectURL(address);
    kept.delete(name);
  }

  function row({ channel }) {
    const map = made("canvas", { className: "own" });
    map.setAttribute("aria-hidden", "true");
    const parts = [
      map, made("span", { className: "name" }), made("span", { className: "percent" }),
      made("span", { className: "track" }, [made("span", { className: "fill" })]),
      made("img", { className: "examples", alt: "", hidden: true }),
      made("span", { className: "none", textContent: "no pictures of it", hidden: true }),
    ];
    const button = made("button", { type: "button" }, parts);
    button.addEventListener("click", () => {
      if (usable()) follow(channel);
    });
    const item = made("li", {}, [button]);
    item.dataset.channel = channel;
    return item;
  }

  /** Writes what a row says; it stays the same element, so that it keeps the focus. */
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
    button.querySelector(".none").hidden = entry.examples || !fields.with_pictures;
    showExamples(button.querySelector(".examples"), fields.layer, entry);
  }

  async function showExamples(image, layer, { channel, examples: has }) {
    if (!has || !image.hidden) return;
    const address = await examples(layer, channel).catch(() => null);
    if (!address) return;
    image.onload = () => { // as large as in other rows, however few there are
      image.style.width = `${(100 * image.naturalWidth) / (MOST_EXAMPLES * image.naturalHeight * TILE)}%`;
    };
    image.src = address;
    image.alt = "Pictures that it answers to";
    image.hidden = false;
  }

  return {
    async show(fields, jpeg) {
      const number = ++newest;
      section.hidden = false;
      heading.textContent = fields.layer ? `Channels of ${fields.layer}` : "Channels";
      if (why.textContent !== fields.why) why.textContent = fields.why;
      const before = [...list.children];
      const focused = list.contains(document.activeElement) && document.activeElement.parentElement.dataset.channel;
      const items = fields.rows.map((entry, index) => {
        const same = list.dataset.layer === fields.layer && before[index]?.dataset.channel === String(entry.channel);
        return same ? before[index] : row(entry);
      });
      items.forEach((item, index) => { // only those that changed: the others keep the focus
        if (!before[index]) list.append(item);
        else if (item !== before[index]) before[index].replaceWith(item);
      });
      before.slice(items.length).forEach((item) => item.remove());
      list.dataset.layer = fields.layer;
      items.forEach((item, index) => fill(item, fields.rows[index], fields));
      if (focused && !list.contains(document.activeElement)) { // its channel has another place now
        items.find((item) => item.dataset.channel === focused)?.firstChild.focus({ preventScroll: true });
      }
      if (!jpeg.byteLength) return;
      const maps = await createImageBitmap(new Blob([jpeg], { type: "image/jpeg" })).catch(() => null);
      if (maps && number === newest) drawMaps(items, maps);
      maps?.close();
    },
    hide() {
      newest += 1;
      section.hidden = true;
      list.replaceChildren();
    },
    forget() {
      for (const name of [...kept.keys()]) forget(name);
    },
  };
}

/** Draws each row's part of a picture in which all maps stand side by side. */
function drawMaps(items, maps) {
  const width = maps.width / items.length;
  items.forEach((item, index) => {
    const canvas = item.querySelector("canvas");
    if (canvas.width !== width || canvas.height !== maps.height) {
      canvas.width = width;
      canvas.height = maps.height;
    }
    canvas.getContext("2d").drawImage(
      maps, index * width, 0, width, maps.height, 0, 0, width, maps.height,
    );
  });
}
