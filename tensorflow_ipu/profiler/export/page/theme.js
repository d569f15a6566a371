// Dark and light: what the system says, unless the reader has switched.

const themeListeners = [];
const THEME = "tensorflow-ipu theme";

/** Calls a function when other colors are in force. */
function onTheme(listener) {
  themeListeners.push(listener);
}

/** Whether the page is dark now. */
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Switches between dark and light, and keeps that for the next report. */
function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(THEME, theme);
  } catch {
    // A page that may keep nothing.
  }
  themeListeners.forEach((listener) => listener());
}

/** Takes the theme of the last report, and follows the system. */
function beginTheme() {
  try {
    const kept = localStorage.getItem(THEME);
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  } catch {
    // A page that may keep nothing.
  }
  const listening = matchMedia("(prefers-color-scheme: dark)");
  listening.addEventListener("change", () => themeListeners.forEach((listener) => listener()));
}
