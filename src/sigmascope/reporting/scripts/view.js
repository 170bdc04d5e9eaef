// The address of the page is a link to what it shows: its fragment holds what the reader chose.

// `parts` maps a name to { read, apply }: read returns a text, or null for what the page shows anyway; apply takes one.
function createAddress(parts) {
  let applying = false;

  function write() {
    if (applying) return;
    const chosen = Object.entries(parts).map(([name, { read }]) => [name, read()]).filter(([, text]) => text != null);
    const fragment = chosen.map(([name, text]) => `${name}=${encodeURIComponent(text).replaceAll("%2C", ",")}`).join("&");
    if (!fragment && !location.hash.includes("=")) return; // a plain link to a section stays
    const page = location.href.split("#")[0];
    try {
      history.replaceState(history.state, "", fragment ? `${page}#${fragment}` : page);
    } catch {
      // a frame without an address of its own
    }
  }

  function apply() {
    if (!location.hash.includes("=")) return;
    const given = new URLSearchParams(location.hash.slice(1));
    applying = true;
    for (const [name, part] of Object.entries(parts)) if (given.has(name)) part.apply(given.get(name));
    applying = false;
    write();
  }

  addEventListener("hashchange", apply);
  return { write, apply };
}

const numbersIn = (text) => text.split(",").filter(Boolean).map(Number);

const sameNumbers = (one, other) => one.length === other.length && one.every((value, place) => value === other[place]);

// The networks in color.
const choicePart = (networks, choice) => ({
  read() {
    const [now, first] = [choice.chosen(), firstChoice(networks)].map((some) => some.map(({ number }) => number));
    return sameNumbers(now, first) ? null : now.join(",");
  },
  apply: (text) => choice.assign([...new Set(numbersIn(text))].map((number) => networks[number]).filter(Boolean).slice(0, SLOTS)),
});

const depthPart = () => ({
  read: () => (byId("depth").querySelector("input:checked").value === "share" ? "share" : null),
  apply(text) {
    const input = [...byId("depth").querySelectorAll("input")].find(({ value }) => value === text);
    if (!input) return;
    input.checked = true;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  },
});

const sitePart = (networks, detail) => ({
  read: () => (detail.current() ? `${detail.current().network.number},${detail.current().site.number + 1}` : null),
  apply(text) {
    const [number, call] = numbersIn(text);
    const site = networks[number]?.sites[call - 1];
    if (site) detail.open(networks[number], site);
  },
});

const sortPart = (table) => ({ read: table.sorted, apply: (text) => table.sort(...text.split(",")) });

// Copies the address, or selects nothing and says so where a browser does not allow it.
function createCopy() {
  const status = element("span", { role: "status", class: "quiet" });
  const button = buttonOf("Copy link to this view", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      status.textContent = "Copied.";
    } catch {
      status.textContent = "Copy the address of this page: it leads to this view.";
    }
  });
  byId("take").append(button, status);
}
