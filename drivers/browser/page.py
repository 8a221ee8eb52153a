"""Tries the page of `mongotx serve --web` in a real browser: what it shows while clients work, its
buttons, and that no other page can use it.

`MONGODB_URI` is the gateway, `MONGOTX_PAGE` its page. With `PICTURES` pictures of it in light and
in dark are left in that folder.
"""

import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from chromium import Browser, find
from pymongo import MongoClient
from pymongo.errors import PyMongoError

URI = os.environ.get("MONGODB_URI", "mongodb://127.0.0.1:27117")
PAGE = os.environ.get("MONGOTX_PAGE", "http://127.0.0.1:27118/")
SHOP, TILL = "<b>shop</b>", "till"
SECRET = "a customer's secret"
EVIL = "evil.example"

ROWS = "[...document.querySelectorAll('#operations tbody tr')]"
SHOPS_ROW = f"{ROWS}.find((row) => row.innerText.includes('{SHOP}'))"


def check(is_so, words: str) -> None:
    """Ends the program with these words, unless the condition holds."""
    if not is_so:
        sys.exit(f"not as it should be: {words}")
    print(f"ok: {words}")


def has_failed(what) -> bool:
    """Whether something that is done with the driver fails."""
    try:
        what()
        return False
    except PyMongoError:
        return True


def watched(tab) -> None:
    """The page while no transaction waits."""
    tab.wait("document.querySelector('#about').textContent.includes('up for')")
    tab.wait("document.querySelectorAll('#chart-rates path').length > 0")
    before = tab.eval("document.querySelector('#chart-rates svg').outerHTML")
    tab.wait(f"document.querySelector('#chart-rates svg').outerHTML !== {before!r}")
    check(True, "the pictures move")


def in_flight(tab, shop, till) -> None:
    """A transaction, a write that waits for it, and its end by a button."""
    orders = shop.get_database("page").orders
    orders.drop()
    orders.insert_one({"_id": 1, "owner": SECRET, "n": 0})
    session = shop.start_session()
    session.start_transaction()
    orders.update_one({"_id": 1, "owner": SECRET}, {"$inc": {"n": 1}}, session=session)
    waiting = threading.Thread(target=lambda: till.get_database("page").orders.update_one({"_id": 1}, {"$set": {"by": TILL}}))
    waiting.start()
    tab.wait(f"{SHOPS_ROW} !== undefined")
    waits = tab.wait(
        f"[...document.querySelectorAll('#waits li li')].map((item) => item.innerText).find((text) => text.includes('{TILL}'))"
    )
    check("page.orders" in waits, "who waits for whom is shown with the collection")
    roots = tab.eval("document.querySelector('#waits > .rows > ul > li > b').textContent")
    check(SHOP in roots, "the one who is waited for stands above")
    check(tab.eval("document.querySelectorAll('main b b, main td b').length") == 0, "names are text, not elements")
    check(SECRET not in tab.eval("document.documentElement.outerHTML"), "no value of a query is shown")
    check(tab.eval(f"{SHOPS_ROW}.innerText.includes('page.orders')"), "the row names the collection")
    pictures(tab)
    tab.eval(f"{SHOPS_ROW}.querySelector('button').click()")
    check(tab.eval(f"{SHOPS_ROW}.querySelector('button').textContent") == "Abort: sure?", "a button asks once more")
    check(waiting.is_alive(), "and has done nothing yet")
    tab.eval(f"{SHOPS_ROW}.querySelector('button').click()")
    tab.wait("document.querySelector('#said').textContent.includes('rolled back')")
    tab.wait(f"{SHOPS_ROW} === undefined")
    waiting.join(30)
    check(not waiting.is_alive(), "who waited goes on")
    check(has_failed(session.commit_transaction), "the transaction is over for its client")
    check(orders.find_one({"_id": 1}) == {"_id": 1, "owner": SECRET, "n": 0, "by": TILL}, "and has changed nothing")
    tab.wait(f"document.querySelector('#ended tbody').innerText.includes('{SHOP}')")
    tab.eval("document.querySelector('#clients tbody button').click()")
    tab.wait("document.querySelector('#said').textContent.includes('holds no document')")
    check(True, "what a client holds is looked for on request")


def pictures(tab) -> None:
    folder = os.environ.get("PICTURES")
    for scheme in ("light", "dark") if folder else ():
        tab.picture(Path(folder) / f"page-{scheme}.png", scheme)


class Strange(BaseHTTPRequestHandler):
    """A page of another origin, which would like to use the gateway's."""

    def do_GET(self):  # noqa: N802, the name is http.server's
        """Tries what a page can try."""
        body = f"""<!doctype html><iframe src="{PAGE}"></iframe><script>
          window.done = (async () => {{
            const tried = [];
            const post = (headers) => fetch("{PAGE}repair", {{ method: "POST", mode: headers ? "cors" : "no-cors", headers, body: "{{}}" }});
            for (const headers of [undefined, {{ "X-MongoTx-Token": "x" }}]) {{
              try {{ tried.push((await post(headers)).type); }} catch (error) {{ tried.push("refused"); }}
            }}
            try {{ await (await fetch("{PAGE}state")).text(); tried.push("read"); }} catch (error) {{ tried.push("refused"); }}
            return tried.join();
          }})();
        </script>""".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Says nothing."""


def strangers(browser) -> None:
    """Other pages, and other names that lead here."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Strange)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tab = browser.open(f"http://{EVIL}:{server.server_port}/")
    tab.wait("window.done !== undefined")
    tried = tab.eval("window.done")
    check(tried == "refused,refused,refused", f"a strange page can neither read nor do anything: {tried}")
    statuses = [event["response"]["status"] for event in tab.events("Network.responseReceived") if "repair" in event["response"]["url"]]
    check(statuses and set(statuses) <= {401, 403, 405}, f"what it has sent was refused: {statuses}")
    logged = [event["entry"]["text"] for event in tab.events("Log.entryAdded")]
    check(any("frame" in text.lower() for text in logged), "it cannot frame the page")
    server.shutdown()
    rebound = browser.open(PAGE.replace("127.0.0.1", EVIL))
    rebound.wait("document.body !== null && document.body.innerText.includes('name')")
    check("not one of this gateway" in rebound.eval("document.body.innerText"), "a strange name that leads here shows nothing")


def main() -> None:
    """Runs all of it."""
    program = find()
    if program is None:
        sys.exit("there is no chromium on this machine")
    browser = Browser(program, [EVIL])
    try:
        shop, till = (MongoClient(URI, appName=name) for name in (SHOP, TILL))
        tab = browser.open(PAGE)
        watched(tab)
        in_flight(tab, shop, till)
        strangers(browser)
        asked = [event["request"]["url"] for event in tab.events("Network.requestWillBeSent")]
        check(all(url.startswith((PAGE, "data:")) for url in asked), f"nothing came from elsewhere, of {len(asked)} requests")
        problems = [event["entry"]["text"] for event in tab.events("Log.entryAdded") if event["entry"]["level"] == "error"]
        check(not problems and not tab.events("Runtime.exceptionThrown"), f"the browser has nothing to complain of: {problems}")
    finally:
        browser.end()


if __name__ == "__main__":
    started = time.monotonic()
    main()
    print(f"all of it in {time.monotonic() - started:.0f} s")
