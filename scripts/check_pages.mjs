// Opens pages in a browser as readers do: no error, groups light up, sliders redraw, no text overlaps, axe is content.
// Usage: node check_pages.mjs NODE_MODULES BROWSER PICTURES PAGE...
import { createRequire } from "node:module";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, browserPath, pictures, ...pages] = process.argv.slice(2);
const require = createRequire(path.resolve(modules, "x.js"));
const { chromium } = require("playwright-core");
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const WIDTHS = [1280, 390];
const THEMES = ["light", "dark"];
const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
const failures = [];

const profile = mkdtempSync(path.join(tmpdir(), "pages-"));
const context = await chromium.launchPersistentContext(profile, { executablePath: browserPath, headless: true, args: ARGUMENTS });
try {
  for (const page of pages) await checkPage(page);
} finally {
  await context.close();
  rmSync(profile, { recursive: true, force: true });
}
failures.forEach((failure) => console.log(failure));
console.log(`${pages.length} pages, ${failures.length} failures`);
process.exit(failures.length ? 1 : 0);

async function checkPage(file) {
  const name = path.basename(file, ".html");
  const say = (what) => failures.push(`${name}: ${what}`);
  const page = await context.newPage();
  page.on("console", (message) => { if (message.type() === "error") say(`console: ${message.text()}`); });
  page.on("pageerror", (error) => say(`script: ${error.message}`));
  page.on("request", (request) => { if (!request.url().startsWith("file:")) say(`asks the network for ${request.url()}`); });
  for (const width of WIDTHS) {
    for (const theme of THEMES) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme: theme });
      await page.goto(pathToFileURL(path.resolve(file)).href);
      await checkLook(page, `${name}-${width}-${theme}`, say);
    }
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await checkGroups(page, say);
  await checkSliders(page, say);
  await checkTheme(page, say);
  await page.emulateMedia({ media: "print" });
  await page.pdf({ path: path.join(pictures, `${name}.pdf`), format: "A4" });
  await page.close();
}

async function checkLook(page, label, say) {
  await page.screenshot({ path: path.join(pictures, `${label}.png`), fullPage: true });
  await page.evaluate(() => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) say(`${label}: ${wide} px wider than the window`);
  for (const overlap of await page.evaluate(overlaps)) say(`${label}: overlap ${overlap}`);
  await page.evaluate(axeSource);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  for (const each of found.violations) {
    if (["serious", "critical"].includes(each.impact)) say(`${label}: axe ${each.id}: ${each.nodes.length} x ${each.nodes[0].target}: ${each.nodes[0].failureSummary.replaceAll("\n", " ")}`);
  }
}

// Pairs of text boxes that overlap by more than rounding. Runs in the page.
function overlaps() {
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("script, style, title, .settings thead") || !parent.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) if (box.width > 1 && box.height > 1) boxes.push([box, node]);
  }
  boxes.sort((one, other) => one[0].top - other[0].top);
  const found = [];
  boxes.forEach(([box, node], index) => {
    for (let other = index + 1; other < boxes.length && boxes[other][0].top < box.bottom - 2; other += 1) {
      const [second, text] = boxes[other];
      const across = Math.min(box.right, second.right) - Math.max(box.left, second.left);
      const down = Math.min(box.bottom, second.bottom) - second.top;
      const scrolls = node.parentElement.closest(".code, .wide") || text.parentElement.closest(".code, .wide");
      if (across > 2 && down > 3 && node !== text && !scrolls) found.push(`"${node.data.trim().slice(0, 40)}" and "${text.data.trim().slice(0, 40)}"`);
    }
  });
  return found.slice(0, 5);
}

async function checkGroups(page, say) {
  const cell = page.locator(".box rect").nth(1);
  if (!(await cell.count())) return;
  const words = page.locator(".lit").first();
  const before = await words.textContent();
  await cell.hover();
  if ((await words.textContent()) === before) say("hovering over a GPU lights nothing");
  if (!(await page.locator(".box rect.self").count())) say("no GPU is lit as itself");
  await page.mouse.move(0, 0);
  if ((await words.textContent()) !== before) say("the group stays lit after the pointer has left");
  await page.locator(".chooser input").first().focus();
  await page.keyboard.press("ArrowUp");
  if ((await words.textContent()) === before) say("the keyboard lights nothing");
}

async function checkSliders(page, say) {
  for (const input of await page.locator(".sliders input").all()) {
    const article = input.locator("xpath=ancestor::section");
    const before = await article.locator(".timeline").innerHTML();
    const steps = Number(await input.getAttribute("max"));
    await input.focus();
    for (let step = 0; step <= steps; step += 1) await page.keyboard.press("ArrowLeft");
    const least = await article.locator(".timeline").innerHTML();
    for (let step = 0; step <= steps; step += 1) await page.keyboard.press("ArrowRight");
    if (least === before && (await article.locator(".timeline").innerHTML()) === before) say("a slider redraws nothing");
  }
}

async function checkTheme(page, say) {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const before = await ground();
  await page.locator("#theme").click();
  if ((await ground()) === before) say("the button does not change the theme");
}
