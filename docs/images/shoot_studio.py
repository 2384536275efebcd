"""The picture of the studio in the documents, as a browser shows it: studio.png.

Run it: python docs/images/shoot_studio.py (needs the extra studio, Playwright and Chromium; see scripts/chromium)
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
SIZE = {"width": 1360, "height": 960}
RUNS = 2
"""The first one loads what the second finds there."""


def main(directory: Path = HERE) -> None:
    from playwright.sync_api import sync_playwright
    from tests.see.browser import chromium

    import episode.see.studio

    serving = episode.see.studio.serve(port=0)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.set_default_timeout(240_000)
        page.goto(serving.address)
        page.locator(".example[data-name=v_shape]").click()
        page.locator("#editor-text").evaluate("(area) => area.blur()")
        page.locator("#editor").evaluate("(editor) => { editor.style.height = '14.5rem' }")
        page.locator("#check.is-right").wait_for()
        for _ in range(RUNS):
            page.locator("#run").click()
            page.locator("#run-state[data-state=done]").wait_for()
        page.locator("#tab-plot").click()
        page.locator("#panel-plot svg.marks").wait_for()
        page.mouse.move(5, 5)
        page.screenshot(path=directory / "studio.png")
        browser.close()
    serving.stop()


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1]))
    main()
