// Colours for all languages: tokens as the server's lexer has them, and names of a pattern's parts by where they stand.

const CLAUSES = new Set(`MATCH_RECOGNIZE PATTERN DEFINE MEASURES PARTITION ORDER BY WITHIN RETURN SUBSET SITUATIONS EVENTS
  TYPE START RECENCY WINDOW OVER SKIP AFTER MATCH ONE ALL ROW ROWS PER PAST LAST_ROW COLLAPSED CONFIDENCE INCREMENTAL
  MAXIMAL SEQ GRANULARITY PROBABILITIES WIDTH UNMATCHED EMPTY SHOW OMIT NEXT TO INITIAL SEEK AT LEAST MOST`.split(/\s+/));
const KEYWORDS = new Set(`SELECT FROM WHERE GROUP HAVING LIMIT OFFSET DISTINCT AS AND OR NOT IN IS NULL LIKE BETWEEN EXISTS
  CASE WHEN THEN ELSE END JOIN INNER LEFT RIGHT FULL CROSS SEMI ANTI ON USING UNION EXCEPT INTERSECT WITH VALUES TABLE
  LATERAL ASC DESC NULLS FIRST LAST TRUE FALSE INTERVAL CAST DATE TIMESTAMP CURRENT UNBOUNDED PRECEDING FOLLOWING RANGE
  DAY DAYS HOUR HOURS MINUTE MINUTES SECOND SECONDS MILLISECOND MILLISECONDS MICROSECOND MICROSECONDS WEEK WEEKS MONTH
  MONTHS YEAR YEARS RUNNING FINAL PERMUTE RECURSIVE ROLLUP CUBE SETS GROUPING`.split(/\s+/));
const RELATIONS = new Set(`before after meets met-by overlaps overlapped-by starts started-by during contains finishes
  finished-by equals skip-till-next-match skip-till-any-match partition-contiguity strict-contiguity`.split(/\s+/));
const ENDS_PATTERN = new Set(["DEFINE", "WHERE", "WITHIN", "RETURN", "SUBSET", "MEASURES", "CONFIDENCE", "AFTER", "ONE", "ALL"]);

const TOKEN = new RegExp([
  String.raw`(?<comment>--(?!\})[^\n]*|\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$))`,
  String.raw`(?<string>[rRxX]?'(?:\\.|''|[^'\\])*(?:'|$)|"(?:\\.|""|[^"\\])*(?:"|$)|[‘’][^‘’]*(?:[‘’]|$)|[“”][^“”]*(?:[“”]|$))`,
  "(?<quoted>`(?:``|[^`])*(?:`|$))",
  String.raw`(?<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*)`,
  String.raw`(?<name>[\p{L}_][\p{L}\p{N}_]*(?:-[\p{L}]+)*)`,
  String.raw`(?<space>\s+)`,
  String.raw`(?<symbol>[\s\S])`,
].join("|"), "gu");

function tokens(text) {
  const found = [];
  for (const match of text.matchAll(TOKEN)) {
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    const hyphen = kind === "name" ? match[0].indexOf("-") : -1;
    if (hyphen > 0 && !RELATIONS.has(match[0].toLowerCase())) {
      // Only relations and strategies have hyphens in them; elsewhere it is a minus.
      let at = match.index;
      for (const part of match[0].split(/(-)/)) {
        found.push({ kind: part === "-" ? "symbol" : "name", text: part, start: at });
        at += part.length;
      }
    } else found.push({ kind, text: match[0], start: match.index });
  }
  return found;
}

// Names that stand in PATTERN, in DEFINE before AS, and in SUBSET are the parts of the pattern.
function labelsOf(found) {
  const labels = new Set();
  let inside = false;
  found.forEach((token, at) => {
    if (token.kind !== "name") return;
    const upper = token.text.toUpperCase();
    if (upper === "PATTERN") inside = true;
    else if (inside && ENDS_PATTERN.has(upper)) inside = false;
    else if (inside && !CLAUSES.has(upper) && !KEYWORDS.has(upper) && !RELATIONS.has(token.text.toLowerCase())
      && !(token.text === "U" && found[at + 1]?.kind === "space")) labels.add(upper);
  });
  return labels;
}

function classOf(token, before, following, labels) {
  if (token.kind !== "name") return { comment: "comment", string: "string", number: "number" }[token.kind];
  const upper = token.text.toUpperCase();
  if (RELATIONS.has(token.text.toLowerCase())) return "relation";
  if (before === ".") return following === "(" ? "function" : undefined;
  if (labels.has(upper)) return "label";
  if (CLAUSES.has(upper)) return "clause";
  if (KEYWORDS.has(upper) && !(following === "(" && (upper === "FIRST" || upper === "LAST"))) return "keyword";
  return following === "(" ? "function" : undefined;
}

// Spans of one class each: [start, end, class].
export function spans(text) {
  const found = tokens(text);
  const labels = labelsOf(found);
  return found.map((token, at) => {
    const next = found[at + 1]?.kind === "space" ? found[at + 2] : found[at + 1];
    return [token.start, token.start + token.text.length, classOf(token, found[at - 1]?.text, next?.text, labels)];
  });
}

// The text as coloured elements; marks are further spans that lie over the others.
export function coloured(text, marks = []) {
  const parts = document.createDocumentFragment();
  const cuts = new Set(marks.flatMap(([start, end]) => [start, end]));
  for (const [start, end, kind] of spans(text)) {
    const inner = [...cuts].filter((cut) => cut > start && cut < end).sort((a, b) => a - b);
    let from = start;
    for (const to of [...inner, end]) {
      const mark = marks.find(([first, last]) => first <= from && to <= last);
      const classes = [kind, mark?.[2]].filter(Boolean).join(" ");
      const piece = text.slice(from, to);
      if (classes) {
        const element = document.createElement("span");
        element.className = classes;
        element.textContent = piece;
        parts.append(element);
      } else parts.append(piece);
      from = to;
    }
  }
  const end = marks.find(([start]) => start >= text.length);
  if (end) {
    const element = document.createElement("span");
    element.className = end[2];
    element.textContent = " ";
    parts.append(element);
  }
  parts.append("\n");
  return parts;
}
