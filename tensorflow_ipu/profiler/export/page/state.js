// What is shown: the view, what is chosen in it and how it is filtered, as the address says.

/** @type {Object<string, string>} view, chosen, q (filter), bound, ipu, step. */
const state = {};
const listeners = [];

/** Calls a function now and whenever something else is shown. */
function onState(listener) {
  listeners.push(listener);
}

/** What the part of the address after `#` says. */
function readAddress() {
  const text = location.hash.slice(1);
  return Object.fromEntries(new URLSearchParams(text));
}

/** The address of a state. */
function addressOf(values) {
  const entries = Object.entries(values).filter(([, value]) => value !== "" && value != null);
  return `#${new URLSearchParams(entries)}`;
}

/**
 * Shows something else.
 * @param {Object<string, string|null>} changes - what is to be other than now.
 * @param {boolean} replace - whether it takes the place of the last entry of the history.
 */
function go(changes, replace = false) {
  const next = { ...state, ...changes };
  const address = addressOf(next);
  if (address === addressOf(state)) return;
  assign(next);
  if (replace) {
    try {
      history.replaceState(null, "", address);
    } catch {
      // A frame without an address of its own; the state is kept here.
    }
  } else {
    location.hash = address;
  }
  listeners.forEach((listener) => listener(state));
}

/** Makes the state other values, and these only. */
function assign(next) {
  for (const key of Object.keys(state)) delete state[key];
  Object.assign(state, next);
}

/** Follows the address: at the start, and when the reader goes back. */
function followAddress() {
  const values = readAddress();
  if (addressOf(values) === addressOf(state)) return;
  assign(values);
  listeners.forEach((listener) => listener(state));
}

/** Chooses a thing: `kind` is layer, op, transfer, tensor or tile. */
function choose(kind, id) {
  go({ chosen: `${kind}:${id}` });
}

/** Kind and number of what is chosen; of a tile IPU and tile. */
function chosenThing() {
  if (!state.chosen) return null;
  const [kind, id] = state.chosen.split(":");
  const numbers = String(id).split(".").map(Number);
  if (numbers.some((each) => !Number.isInteger(each) || each < 0)) return null;
  return { kind, id: numbers[0], tile: numbers[1] };
}
