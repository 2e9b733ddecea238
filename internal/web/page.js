// Everything on this page works without this script, but that the page is told of changes.
"use strict";

// The code stands in the fragment, which no browser sends to a server; it is taken out of
// the address before it is exchanged.
function enter() {
  const signIn = document.getElementById("sign-in");
  const code = location.hash.slice(1);
  if (!signIn || !code) return;
  history.replaceState(null, "", location.pathname);
  document.getElementById("code").value = code;
  signIn.submit();
}
enter();
addEventListener("hashchange", enter);

// What answers a form stands at the form's address, where it can neither be looked at again nor
// kept up to date.
if (document.body.dataset.at) history.replaceState(null, "", document.body.dataset.at);

const news = document.getElementById("news");

// A page names times in UTC; whoever reads it has a clock of their own on the wall.
function localTimes(root) {
  for (const time of root.querySelectorAll("time")) {
    time.title = time.textContent;
    time.textContent = new Date(time.dateTime).toLocaleString("sv"); // year first, as in the records
  }
}
localTimes(document);

// Where all pages do not fit into a row, the one that is shown is in sight.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// A form that wants a passkey asks the page what an authenticator is to sign, and carries what it
// signed. Browsers that know no passkeys do not show it.
for (const form of document.querySelectorAll("form[data-passkey]")) {
  if (!window.PublicKeyCredential || !PublicKeyCredential.parseRequestOptionsFromJSON) continue;
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const answer = await fetch(form.dataset.passkey, { method: "POST", body: new URLSearchParams(new FormData(form)), redirect: "error" });
      if (!answer.ok) throw new Error(await answer.text());
      const asked = await answer.json();
      const signed = asked.rp
        ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(asked) })
        : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(asked) });
      form.elements.credential.value = JSON.stringify(signed);
      form.submit();
    } catch (problem) {
      news.textContent = "Nothing was done: " + problem.message;
    }
  });
}

// keepFocus changes the page, and puts the focus back on what stands in the place of what
// had it.
function keepFocus(change) {
  const focused = document.activeElement;
  const href = focused && focused.getAttribute("href");
  const part = focused && focused.closest("[id]");
  change();
  if (!focused || focused.isConnected) return;
  const scope = part && document.getElementById(part.id);
  if (!scope) return;
  const same = [...scope.querySelectorAll(focused.localName)].find((e) => e.getAttribute("href") === href);
  (same || scope).focus({ preventScroll: true });
}

// takePart puts a part of the new page in the place of the old one. What a person has
// opened stays open.
function takePart(old, fresh) {
  if (old.innerHTML === fresh.innerHTML) return;
  for (const opened of old.querySelectorAll("details[open][id]")) {
    const same = fresh.querySelector("#" + CSS.escape(opened.id));
    if (same) same.open = true;
  }
  old.replaceWith(document.adoptNode(fresh));
}

// takeList adds what is new below what is there, and never moves what a person may be about
// to press. What waits no more can be pressed no more.
function takeList(old, fresh) {
  let added = 0;
  const there = new Set([...fresh.children].map((card) => card.id));
  for (const card of [...fresh.children]) {
    if (document.getElementById(card.id)) continue;
    old.append(document.adoptNode(card));
    added++;
  }
  for (const card of old.children) {
    if (card.classList.contains("gone") || there.has(card.id)) continue;
    card.classList.add("gone");
    for (const button of card.querySelectorAll("button")) button.disabled = true;
    const note = document.createElement("p");
    note.textContent = "This question waits no more.";
    card.append(note);
  }
  return added;
}

async function refresh() {
  const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error" });
  if (answer.status === 401) location.reload();
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  localTimes(page);
  keepFocus(() => {
    for (const part of document.querySelectorAll("[data-part]")) {
      const fresh = page.getElementById(part.id);
      if (fresh) takePart(part, fresh);
    }
    for (const fresh of page.querySelectorAll("main > [data-part]")) {
      if (!document.getElementById(fresh.id)) document.getElementById("main").append(document.adoptNode(fresh));
    }
    for (const list of document.querySelectorAll("[data-list]")) {
      const fresh = page.getElementById(list.id);
      const added = fresh ? takeList(list, fresh) : 0;
      if (added) news.textContent = added + (added === 1 ? " more question waits, below." : " more questions wait, below.");
    }
  });
}

// One stream a page. It names the state that the page shows, so that no change between the
// two is lost; a browser that comes back names the last one by itself.
const { watch, state } = document.body.dataset;
if (watch) {
  const stream = new EventSource("/events?watch=" + encodeURIComponent(watch) + "&seen=" + encodeURIComponent(state || ""));
  let going = false, again = false;
  stream.addEventListener("changed", async () => {
    again = true;
    if (going) return;
    going = true;
    while (again) {
      again = false;
      try { await refresh(); } catch { /* the stream tells of it when the page is back */ }
    }
    going = false;
  });
}
