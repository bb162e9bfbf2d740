/** Flink's plan descriptions are bits of HTML: one operator a line, drawn as a tree. Here they become plain lines. */

const ENTITIES: Record<string, string> = { '&gt;': '>', '&lt;': '<', '&quot;': '"', '&#39;': "'", '&amp;': '&' };

/** The operators of a chain, first to last, without markup, numbering and tree strokes. */
export function planLines(description: string): string[] {
  return description
    .split(/<br\s*\/?>| -> /)
    .map((line) => line.replace(/&(gt|lt|quot|#39|amp);/g, (entity) => ENTITIES[entity] ?? entity))
    .map((line) =>
      line
        .replace(/^[\s:+|-]+/, '')
        .replace(/^s?\[\d+\]:\s*/, '')
        .trim(),
    )
    .filter((line) => line !== '');
}
