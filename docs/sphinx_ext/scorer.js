// The order of what the site's search finds: pages with the asked words in their title, then other
// guides, then tables and the reference, then pages about the project.

const BEHIND = ["changelog", "contributing", "releasing", "architecture", "names", "differences"];
// Pages that have nearly every word somewhere.
const TABLES = ["accuracy", "errors", "operators", "options", "popart_options"];
const TITLE_HAS_ALL = 10;
const SUBJECT = 7;
// Letters of a word that its other forms share.
const STEM = 5;

/** The words of the query. */
function askedWords() {
  const asked = new URLSearchParams(window.location.search).get("q") || "";
  return asked.toLowerCase().split(/\s+/).filter(Boolean);
}

/** Whether a title has all words of the query. */
function titleHasAll(title) {
  const words = askedWords();
  return words.length > 0 && words.every((word) => title.includes(word.slice(0, STEM)));
}

// eslint-disable-next-line no-unused-vars
var Scorer = {
  /** The score of a result: page, title, anchor, description, score and file. */
  score: ([page, title, anchor, , score]) => {
    if (BEHIND.includes(page)) return score / 100 - 50;
    // No name is made of several words: such a query is about a subject.
    const several = askedWords().length > 1 ? SUBJECT : 0;
    if (anchor.startsWith("#") && page.startsWith("api/")) return score - several;
    if (TABLES.includes(page) || page.startsWith("api/")) return score - 1;
    return score + (titleHasAll(title.toLowerCase()) ? TITLE_HAS_ALL : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 5, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
