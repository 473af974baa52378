// Search in the browser: all words of the question must be on a page. Titles count most, then how often they occur.
const field = document.getElementById("search"), found = document.getElementById("found");
const top_ = document.documentElement.dataset.top;
const MOST = 12, AROUND = 70;

document.getElementById("pages").open = matchMedia("(min-width: 721px)").matches;

function rank(page, words) {
    const title = page.title.toLowerCase(), text = page.text.toLowerCase();
    let sum = 0;
    for (const word of words) {
        const times = text.split(word).length - 1;
        if (!times && !title.includes(word)) return 0;
        sum += Math.min(times, 10) + (title.includes(word) ? 50 : 0);
    }
    return sum;
}

function excerpt(page, words) {
    const text = page.text.toLowerCase();
    const at = Math.max(0, words.map((word) => text.indexOf(word)).find((n) => n >= 0) ?? 0);
    const from = Math.max(0, at - AROUND);
    return (from ? "..." : "") + page.text.slice(from, at + AROUND) + "...";
}

function show() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    found.replaceChildren();
    found.hidden = !words.length;
    if (!words.length) return;
    const hits = window.pages.map((page) => [rank(page, words), page]).filter(([sum]) => sum)
        .sort((a, b) => b[0] - a[0]).slice(0, MOST);
    for (const [, page] of hits) {
        const item = document.createElement("li"), link = document.createElement("a");
        const title = document.createElement("b"), part = document.createElement("small");
        link.href = top_ + "/" + page.at;
        title.textContent = page.title;
        part.textContent = excerpt(page, words);
        link.append(title, part);
        item.append(link);
        found.append(item);
    }
    if (!hits.length) found.innerHTML = "<li><a>No page has all of these words.</a></li>";
}

field.addEventListener("input", show);
field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") found.querySelector("a[href]")?.click();
    if (event.key === "Escape") { field.value = ""; show(); }
});
document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
});
document.addEventListener("click", (event) => { if (!event.target.closest("#found, header")) found.hidden = true; });
