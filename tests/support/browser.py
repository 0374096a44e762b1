"""A headless Chromium over its debugging pipe: what a page does and looks like. Needs the package chromium."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium")
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
         "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--remote-debugging-pipe"]


class Browser:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()

        def take_pipes():  # Chromium reads commands from 3 and writes answers to 4
            os.dup2(theirs_in, 103), os.dup2(theirs_out, 104)  # out of the way, should they be 3 or 4 themselves
            os.dup2(103, 3), os.dup2(104, 4)

        self.process = subprocess.Popen([CHROMIUM, *FLAGS, f"--user-data-dir={self.folder.name}", "about:blank"], pass_fds=(3, 4),
                                        preexec_fn=take_pipes, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in), os.close(theirs_out)
        self.out, self.pipe = os.fdopen(ours_out, "wb", buffering=0), os.fdopen(ours_in, "rb")
        self.number, self.events, self.session = 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.out.close(), self.pipe.close()
        self.folder.cleanup()

    def message(self):
        data = bytearray()
        while (byte := self.pipe.read(1)) != b"\0":
            if not byte:
                raise AssertionError("the browser has ended")
            data += byte
        return json.loads(data)

    def call(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        self.out.write(json.dumps(command).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path, width=1200, height=900, dark=False):
        """-> complaints of the console and requests for anything but the page."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events.clear()
        url = "file://" + str(path)
        self.call("Page.navigate", url=url)
        end = time.monotonic() + 60
        while self.value("document.readyState + location.href") != "complete" + url:
            if time.monotonic() > end:
                raise AssertionError(f"{url} does not load")
        faults = []
        for event in self.events:
            p = event.get("params", {})
            if event.get("method") in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                faults.append(json.dumps(p))
            elif event.get("method") == "Network.requestWillBeSent" and p["request"]["url"] not in (url, "data:,"):
                faults.append("asks for " + p["request"]["url"])
        return faults

    def value(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def picture(self, path):
        """The whole page as a PNG file."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
