// The board's backend on the server.

async function asked(address, options) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch {
    throw Object.assign(new Error("The server does not answer. Is protoadapt serve still running? Keep this page open."), { unsent: true, lost: false });
  }
  const found = answer.headers.get("content-type")?.startsWith("application/json") ? await answer.json() : {};
  if (!answer.ok && answer.status !== 409) throw failure(answer.status, found.error ?? found.detail ?? `The server answered ${answer.status}.`);
  return { found, conflict: answer.status === 409 };
}

/** `lost`: this server does not know the board, or this visitor; `unsent`: it took no step, and may do so later. */
function failure(status, words) {
  const lost = [401, 403, 404].includes(status);
  return Object.assign(new Error(words), { lost, unsent: lost || status === 503 });
}

export function about() {
  return asked("/api/about").then(({ found }) => found);
}

export async function newBoard() {
  return (await asked("/api/boards", { method: "POST" })).found.id;
}

export function serverBackend(id) {
  const base = `/api/boards/${id}`;
  const originals = new Map(); // files that this page was given, by the picture's place
  let revision = -1;
  function taken({ found, conflict = false }) {
    revision = found.revision;
    return { ...found, conflict };
  }
  return {
    id, base, originals, maps: ["pca", "tsne"],
    load: async (since = 0, names = true) => taken(await asked(`${base}?since=${since}&names=${names}`)),
    async commit(steps, since) {
      const body = JSON.stringify(steps);
      return taken(await asked(`${base}/changes?revision=${revision}&since=${since}`, { method: "POST", body, headers: { "Content-Type": "application/json" } }));
    },
    picture: (place) => ({ small: `${base}/small/${place}`, large: `${base}/large/${place}` }),
    alike: async (place) => (await asked(`${base}/alike/${place}`)).found,
    check: async () => (await asked(`${base}/check`)).found.groups,
    map: async (kind) => (await asked(`${base}/map?kind=${kind}`)).found,
    table: async (file) => (await asked(`${base}/table`, { method: "POST", body: file, headers: { "Content-Type": "text/csv" } })).found,
    /** Sends files; `sent` is called when the server has them, the answer comes when they are read. */
    upload: (form, sent) => new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", `${base}/pictures`);
      request.responseType = "json";
      request.upload.addEventListener("load", sent);
      request.addEventListener("load", () => (request.status === 200 ? resolve(request.response)
        : reject(new Error(request.response?.error ?? request.response?.detail ?? `The server refused the files (${request.status}).`))));
      request.addEventListener("error", () => reject(new Error("The server does not answer, or cut the files off.")));
      request.send(form);
    }),
  };
}
