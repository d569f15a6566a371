// The frame of the page: its bar, the views, keys and printing.

const KEYS = [
  ["/", "search layers, ops, tensors and lines"],
  ["1 to 9", "go to a view"],
  ["?", "this help"],
  ["t", "dark or light"],
  ["Esc", "close what is chosen"],
  ["Alt+←", "back"],
  ["↑ ↓ PgUp PgDn Home End", "move in a table or tree"],
  ["→ ←", "open and close a row of a tree"],
  ["Enter", "choose a row, a tile or a span"],
  ["← →", "move the step, the tile or the span of a plot; with Shift ten"],
  ["↑ ↓", "layers and ops of the timeline"],
  ["+ − 0", "zoom in, out, all of it; < and > move; f fits a span"],
];

/** Reads the data of the page. */
function readData() {
  return JSON.parse(document.getElementById("data").textContent);
}

/**
 * Builds the page around its views.
 * @param {Object} parts
 * @param {Node[]} parts.titles - what stands in the bar.
 * @param {Array} parts.views - name, title and element of each; `show` and `chosen` follow the state.
 * @param {{element: Element, focus: function(): void}} [parts.search]
 * @param {{element: Element, show: function(): void}} [parts.detail]
 */
function buildPage({ titles, views, search, detail }) {
  const help = helpDialog(search ? KEYS : KEYS.slice(1));
  const icon = (text, title, act) =>
    make("button.button.icon", { type: "button", title, "aria-label": title, click: act }, text);
  const bar = make(
    "header.bar",
    {},
    make("div.titles", {}, ...titles),
    search && search.element,
    icon("◐", "dark or light (t)", switchTheme),
    icon("?", "help (?)", () => help.showModal()),
  );
  const buttons = views.map((view, index) =>
    make(
      "button",
      {
        type: "button",
        title: `${view.title} (${index + 1})`,
        click: () => go({ view: view.name }),
      },
      view.title,
      view.count === undefined ? null : make("span.count", {}, count(view.count)),
    ),
  );
  const sections = views.map(makeView);
  const main = make("main.main", { id: "main" }, ...sections);
  const app = make(
    "div.app",
    {},
    bar,
    make("nav.views", { "aria-label": "views" }, ...buttons),
    main,
    detail && detail.element,
  );
  document.body.append(app, help, hint);
  onState(() => showState(views, sections, buttons, detail));
  document.addEventListener("keydown", (event) => onPageKey(event, { views, search, help }));
  addEventListener("hashchange", followAddress);
  addEventListener("popstate", followAddress);
  listenToPrinter(views, sections);
  beginTheme();
  followAddress();
  listeners.forEach((listener) => listener(state));
}

/** The section of a view, with its title and tools. */
function makeView(view) {
  const tools = (view.tools || []).filter(Boolean);
  return make(
    `section.view${view.full ? ".full" : ""}`,
    { "aria-label": view.title, "data-view": view.name },
    make(
      "header",
      {},
      make("h2", {}, view.title),
      typeof view.note === "string" ? make("span.note", {}, view.note) : view.note || null,
      tools.length ? make("div.tools", {}, ...tools) : null,
    ),
    view.element,
  );
}

/** Shows the view, and what is chosen in it, as the state says. */
function showState(views, sections, buttons, detail) {
  const name = views.some((view) => view.name === state.view) ? state.view : views[0].name;
  views.forEach((view, index) => {
    const shown = view.name === name;
    sections[index].classList.toggle("shown", shown);
    if (shown) buttons[index].setAttribute("aria-current", "page");
    else buttons[index].removeAttribute("aria-current");
    if (!shown) return;
    if (view.show) view.show();
    if (view.chosen) view.chosen(chosenThing());
  });
  if (detail) detail.show();
}

/** Does what a key says that nothing in the page has taken. */
function onPageKey(event, { views, search, help }) {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "Escape" && !typing) return go({ chosen: "" });
  if (event.key === "Escape" && typing) return typing.blur();
  if (typing) return;
  const digit = Number(event.key);
  if (event.key === "/" && search) search.focus();
  else if (event.key === "?") help.showModal();
  else if (event.key === "t") switchTheme();
  else if (digit >= 1 && digit <= views.length) go({ view: views[digit - 1].name });
  else return;
  event.preventDefault();
}

/** The window with all keys. */
function helpDialog(keys) {
  const dialog = make(
    "dialog",
    { "aria-label": "help" },
    make("h2", {}, "Keys"),
    make(
      "dl",
      {},
      ...keys.flatMap(([key, text]) => [
        make("dt", {}, make("kbd", {}, key)),
        make("dd", {}, text),
      ]),
    ),
    make(
      "p.soft",
      {},
      "The address of the page says what is shown, so it can be kept and sent. " +
        "Prints with all views open; a long table with its first rows.",
    ),
    make(
      "form",
      { method: "dialog" },
      make("button.button", { click: () => dialog.close() }, "Close"),
    ),
  );
  return dialog;
}

/** Makes everything that is printed: all views, and the first rows of tables. */
function listenToPrinter(views, sections) {
  const all = (on) => {
    printing = on;
    if (on) document.documentElement.dataset.printed = "";
    else delete document.documentElement.dataset.printed;
    sections.forEach((section) => section.classList.toggle("printed", on));
    views.forEach((view) => on && view.show && view.show());
    if (on) document.querySelectorAll("details").forEach((each) => (each.open = true));
    sections.forEach((section) =>
      section
        .querySelectorAll(".grid, .plot")
        .forEach((each) => each.dispatchEvent(new Event("redraw"))),
    );
  };
  addEventListener("beforeprint", () => all(true));
  addEventListener("afterprint", () => {
    all(false);
    listeners.forEach((listener) => listener(state));
  });
}
