// The service worker: keeps what the page has loaded, so that it opens without a network, and lets it
// compute in several threads, which browsers allow to pages with these headers alone.

const KEPT = `realtime_lrp ${registration.scope}`;

addEventListener("install", () => skipWaiting());
addEventListener("fetch", (event) => {
  if (event.request.method === "GET" && event.request.url.startsWith("http")) event.respondWith(answer(event.request));
});

/** Files with a query never change and come from here; others are asked for first. */
async function answer(request) {
  const store = await caches.open(KEPT);
  const kept = await store.match(request);
  if (kept && new URL(request.url).search) return isolated(kept);
  const response = await fetch(request).catch((error) => kept ?? Promise.reject(error));
  if (response.ok && response !== kept) {
    await store.delete(request, { ignoreSearch: true });
    await store.put(request, response.clone()).catch(() => {}); // there is no room
  }
  return isolated(response);
}

function isolated({ body, status, statusText, headers }) {
  const alone = { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" };
  return new Response(body, { status, statusText, headers: { ...Object.fromEntries(headers), ...alone } });
}
