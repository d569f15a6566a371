// The order of what the site's search finds: guides and the reference before pages about the project.

const BEHIND = ["changelog", "contributing", "releasing", "architecture", "names", "differences"];

// eslint-disable-next-line no-unused-vars
var Scorer = {
  /** The score of a result: page, title, anchor, description, score and file. */
  score: ([page, , , , score]) => (BEHIND.includes(page) ? score / 100 - 50 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
