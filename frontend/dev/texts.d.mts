export function pseudo(text: string): string;
export function files(): Record<string, string>;
