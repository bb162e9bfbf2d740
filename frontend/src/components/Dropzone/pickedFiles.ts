/** The files of a file dialog or of a drop, with their paths. */

import { type Picked, isSkipped } from '../../model/programFiles';

export function chosenFiles(input: HTMLInputElement): Picked<File>[] {
  return [...(input.files ?? [])].map((file) => picked(file, file.webkitRelativePath || file.name));
}

/** Walks directories. To be called within the event: behind it the transfer is empty. */
export async function droppedFiles(transfer: DataTransfer): Promise<Picked<File>[]> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  return (await Promise.all(entries.map(filesOf))).flat();
}

async function filesOf(entry: FileSystemEntry): Promise<Picked<File>[]> {
  if (isFile(entry)) {
    const file = await new Promise<File>((resolve, reject) => entry.file(resolve, reject));
    return [picked(file, entry.fullPath.slice(1))];
  }
  if (!isDirectory(entry) || isSkipped(entry.name)) return [];
  const reader = entry.createReader();
  const found: Picked<File>[] = [];
  for (;;) {
    // the browser gives a hundred at a time, and none when there are no more
    const entries = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (entries.length === 0) return found;
    found.push(...(await Promise.all(entries.map(filesOf))).flat());
  }
}

function isFile(entry: FileSystemEntry): entry is FileSystemFileEntry {
  return entry.isFile;
}

function isDirectory(entry: FileSystemEntry): entry is FileSystemDirectoryEntry {
  return entry.isDirectory;
}

function picked(file: File, path: string): Picked<File> {
  return { path, size: file.size, file };
}
