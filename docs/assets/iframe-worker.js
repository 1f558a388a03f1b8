// The theme looks for the name of this file, and loads no such script from the network if it is there.
// A page that was opened from a file may start no worker. A hidden frame then takes the worker's place: the search runs
// in it, and messages go from window to window.
class FrameWorker extends EventTarget {
  constructor(script) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    this.loaded = new Promise((done) => (this.frame.onload = done));
    document.body.append(this.frame);
    window.addEventListener("message", (event) => {
      if (event.source !== this.frame.contentWindow) return;
      this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      if (this.onmessage) this.onmessage(event);
    });
    const page = this.frame.contentDocument;
    page.open();
    page.write(`<body><script>(${FrameWorker.likeAWorker})(window)</script><script src="${script}"></script></body>`);
    page.close();
  }

  // What a worker's global scope has, for the window of the frame.
  static likeAWorker = function (scope) {
    scope.postMessage = (data) => parent.postMessage(data, "*");
    scope.importScripts = async (...addresses) => {
      for (const address of addresses) {
        await new Promise((done, failed) => {
          const tag = Object.assign(document.createElement("script"), { src: address, onload: done, onerror: failed });
          document.body.append(tag);
        });
      }
    };
  };

  async postMessage(data) {
    await this.loaded;
    this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = FrameWorker; // the theme asks for this name before it loads languages
  window.Worker = FrameWorker;
}
