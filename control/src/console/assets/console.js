// Keeps a page fresh: hears that something has changed, fetches the page again, and changes only what differs, so that
// focus, open dialogs and half-written reasons stay. Everything that it puts on a page is text that the server escaped.
"use strict";

const BY_SCRIPT = { headers: { "X-Console-Script": "1" }, credentials: "same-origin", redirect: "manual" };
const main = document.getElementById("main");
const state = document.getElementById("live-state");

/* Dialogs: browsers that know invoker commands need none of this. */
if (!("command" in HTMLButtonElement.prototype)) {
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-opens]");
    if (opener) document.getElementById(opener.dataset.opens).showModal();
  });
}

/* Times. */
function span(seconds) {
  const minutes = Math.floor(seconds / 60), hours = Math.floor(seconds / 3600), days = Math.floor(seconds / 86400);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 600 && seconds % 60) return `${minutes} min ${seconds % 60} s`;
  if (seconds < 3600) return `${minutes} min`;
  if (seconds < 86400) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return days < 14 && hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}
function relative(at) {
  const past = Math.floor((Date.now() - at) / 1000);
  if (past < -1) return `in ${span(-past)}`;
  return past < 5 ? "just now" : `${span(past)} ago`;
}
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
function tick() {
  for (const element of document.querySelectorAll("[data-until]")) {
    const left = Math.ceil((Number(element.dataset.until) - Date.now()) / 1000);
    say(element, left > 0 ? `in ${span(left)}` : "now");
  }
  for (const element of document.querySelectorAll("[data-at]")) say(element, relative(Number(element.dataset.at)));
}

/* Makes one element like another one. Nothing that stays is moved: a dialog that is moved forgets that it is open, and a
   field its focus. */
function key(node) {
  return node.id || (node.getAttribute && node.getAttribute("aria-labelledby")) || "";
}
function keeps(node) {
  return node.nodeType === Node.ELEMENT_NODE && node.hasAttribute("data-keep");
}
function sameKind(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && key(a) === key(b);
}
function counterpart(old, fresh) {
  for (let other = old; other; other = other.nextSibling) {
    if (sameKind(other, fresh)) return other;
    if (keeps(other) || !key(fresh)) return null;
  }
  return null;
}
function morph(from, to) {
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if (keeps(from)) return;
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && name !== "open") from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value && !(from.nodeName === "DETAILS" && name === "open")) from.setAttribute(name, value);
  }
  let old = from.firstChild;
  for (const fresh of [...to.childNodes]) {
    const match = counterpart(old, fresh);
    if (!match) {
      from.insertBefore(fresh, old);
      continue;
    }
    while (old !== match) {
      const gone = old;
      old = old.nextSibling;
      gone.remove();
    }
    old = match.nextSibling;
    morph(match, fresh);
  }
  while (old) {
    const next = old.nextSibling;
    old.remove();
    old = next;
  }
}

let fetching = false;
let again = false;
async function refresh() {
  if (fetching) { again = true; return; }
  fetching = true;
  try {
    const answer = await fetch(location.href, BY_SCRIPT);
    if (answer.status === 401) { location.reload(); return; }
    if (answer.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
      if (fresh) morph(main, fresh);
      tick();
      main.dataset.refreshed = String(Number(main.dataset.refreshed || 0) + 1);
    }
  } catch { /* The stream says that the connection is lost. */ } finally {
    fetching = false;
    if (again) { again = false; refresh(); }
  }
}

function live() {
  const stream = new EventSource(main.dataset.live);
  stream.addEventListener("open", () => { show("on", "Live: this page follows what happens."); });
  stream.addEventListener("change", refresh);
  stream.addEventListener("error", () => {
    show("lost", "The connection is lost; trying again. What you see may be old.");
    // A refusal ends the stream for good: then the page says why.
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => { refresh(); live(); }, 5000);
  });
  addEventListener("pagehide", () => stream.close());
}
function show(word, text) {
  if (!state || state.dataset.state === word) return;
  state.dataset.state = word;
  state.textContent = text;
}

/* What was done a moment ago is said once. */
const here = new URL(location.href);
if (here.searchParams.has("said")) {
  here.searchParams.delete("said");
  history.replaceState(null, "", here);
}

tick();
setInterval(tick, 1000);
if (main && main.dataset.live) {
  live();
  /* What only the lapse of time changes is nobody's news: a node that has been away for long enough, say. */
  setInterval(() => { if (!document.hidden) refresh(); }, 30_000);
}

/* Whoever came by a link from elsewhere is signed in all the same: the browser only shows it to pages of ours. */
const way = document.querySelector("[data-next]");
if (way) {
  fetch("/console/signed-in", BY_SCRIPT)
    .then((answer) => answer.text())
    .then((said) => { if (said === "yes") location.replace(way.dataset.next); })
    .catch(() => {});
}
