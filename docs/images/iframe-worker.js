// The search of a page that was opened from a folder: browsers start no worker for file:// addresses,
// so the worker's script runs in a hidden frame. Pages from a server are left alone.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const base = new URL(url, document.baseURI)
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inside = this.frame.contentWindow
      inside.document.open()
      inside.document.write("<!doctype html><html><body></body></html>")
      inside.document.close()
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      const load = (address) => new Promise((done, failed) => {
        const script = inside.document.createElement("script")
        script.src = new URL(address, base).href
        script.onload = done
        script.onerror = failed
        inside.document.body.appendChild(script)
      })
      inside.importScripts = (...all) => all.reduce((last, next) => last.then(() => load(next)), Promise.resolve())
      load(base.href).then(() => { this.ready = true; this.waiting.splice(0).forEach((data) => this.give(data)) })
    }
    give(data) { this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })) }
    postMessage(data) { if (this.ready) this.give(data); else this.waiting.push(data) }
    terminate() { this.frame.remove() }
  }
}
