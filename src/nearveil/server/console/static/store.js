// The health of the store; asked for on its own, because it is needed most while other answers fail.

import { ask } from "./api.js";
import { $, count, say, terms } from "./dom.js";

export async function showStore() {
  const store = await ask("/v1/console/store");
  const works = store.is_reachable && store.is_writable && store.reason === null;
  say($("store-note"), works ? "The store can be read and written." : store.reason ?? "It is not known yet whether the store can be written.",
    works ? "good" : "bad");
  const ago = (epochs) => epochs <= 0 ? "in this epoch" : epochs === 1 ? "1 epoch ago" : `${count(epochs)} epochs ago`;
  const known = (value, text) => value === null ? "not known" : text(value);
  $("store-terms").replaceChildren(...terms([
    ["Kind", store.kind],
    ["Can be read", store.is_reachable ? "yes" : "no"],
    ["Can be written", store.is_writable ? "yes" : "no"],
    ["Last write", store.written_epochs_ago === null ? "none since this process started" : ago(store.written_epochs_ago)],
    ["Last epoch published", known(store.last_epoch, (epoch) => `${count(epoch)}`
      + (store.epochs_behind === null ? "" : store.epochs_behind > 0 ? `, ${ago(store.epochs_behind)}` : ", which is this one"))],
    ["Version of the tables", known(store.version, count)],
    ["Size", known(store.size_at_most_bytes, (bytes) => `at most ${size(bytes)}`)],
  ]));
  return works;
}

const size = (bytes) => bytes < 2 ** 30 ? `${count(bytes / 2 ** 20)}\u00a0MiB` : `${count(bytes / 2 ** 30)}\u00a0GiB`;
