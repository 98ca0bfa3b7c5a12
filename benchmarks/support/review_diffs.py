"""Diffs of a code review, and the guidelines that each hunk needs: what a review bot retrieves.

Each hunk breaks one guideline. Four of them, which have nothing to do with each other, are a diff
of thirty to forty lines, so that a diff is about four things at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HUNKS_PER_DIFF: Final = 4


@dataclass(frozen=True, slots=True)
class Guideline:
    """A rule of a house, and lines of code that break it."""

    id: str
    text: str
    lines: str


@dataclass(frozen=True, slots=True)
class ReviewedDiff:
    """A diff, and the guidelines that its hunks need."""

    text: str
    needed: frozenset[str]


GUIDELINES: Final = (
    Guideline(
        "sql-parameters",
        "Never build SQL from strings. Pass values as bound parameters of the statement."
        ' Wrong: `execute(f"SELECT ...")`.',
        "cursor.execute(f\"SELECT * FROM users WHERE name = '{name}'\")\nrow = cursor.fetchone()",
    ),
    Guideline(
        "money-decimal",
        "Amounts of money are Decimal, never float: rounding errors add up on invoices."
        " Wrong: `float(price)`.",
        "price = float(item.price)\ntotal = total + price * 1.19",
    ),
    Guideline(
        "http-timeout",
        "Every HTTP request has a timeout, or a dead server holds the worker for ever."
        " Wrong: `requests.get(address)`.",
        "response = requests.get(url)\nresponse.raise_for_status()",
    ),
    Guideline(
        "bare-except",
        "Catch named exceptions. A bare except hides bugs and swallows KeyboardInterrupt."
        " Wrong: `except: pass`.",
        "try:\n    load_settings()\nexcept:\n    pass",
    ),
    Guideline(
        "mutable-default",
        "Do not use a list or a dictionary as default of an argument; it is shared by all calls."
        " Wrong: `def collect(found=[])`.",
        "def add_item(item, basket=[]):\n    basket.append(item)\n    return basket",
    ),
    Guideline(
        "password-hash",
        "Passwords are hashed with argon2, never with md5 or sha1, and never stored readable."
        " Wrong: `hashlib.md5(secret)`.",
        "digest = hashlib.md5(password.encode()).hexdigest()\nuser.password = digest",
    ),
    Guideline(
        "utc-time",
        "Timestamps are aware and in UTC; datetime.now without a zone is local time."
        " Wrong: `datetime.now()`.",
        "created = datetime.now()\nrow.created_at = created.isoformat()",
    ),
    Guideline(
        "secrets-in-code",
        "API keys and tokens come from the environment, never from source code."
        ' Wrong: `TOKEN = "live-..."`.',
        'API_KEY = "sk-live-51Hx0aaBcD"\nclient = PaymentClient(API_KEY)',
    ),
    Guideline(
        "path-traversal",
        "Paths from users are resolved and must stay within the upload folder."
        " Wrong: `os.path.join(folder, filename)`.",
        "target = os.path.join(UPLOADS, request.form['filename'])\nopen(target, 'wb').write(data)",
    ),
    Guideline(
        "shell-injection",
        "Run programs with a list of arguments and without a shell."
        " Wrong: `subprocess.run(line, shell=True)`.",
        'subprocess.run(f"convert {source} {target}", shell=True)',
    ),
    Guideline(
        "pickle",
        "Do not unpickle what comes from outside: loading runs code. Use JSON."
        " Wrong: `pickle.loads(body)`.",
        "session = pickle.loads(base64.b64decode(cookie))\nreturn session",
    ),
    Guideline(
        "random-token",
        "Tokens for links and sessions come from the module secrets, not from random."
        " Wrong: `random.choices(letters)`.",
        'token = "".join(random.choices(string.ascii_letters, k=20))\nsend_reset_link(token)',
    ),
    Guideline(
        "n-plus-one",
        "Load related rows in one query; a query for each row of a loop is slow."
        " Wrong: `for order in orders: order.customer`.",
        "for order in Order.objects.all():\n    names.append(order.customer.name)",
    ),
    Guideline(
        "blocking-sleep",
        "In a coroutine await asyncio.sleep; time.sleep stops the whole event loop."
        " Wrong: `async def wait(): time.sleep(1)`.",
        "async def poll_queue():\n    while True:\n        time.sleep(5)",
    ),
    Guideline(
        "logging-not-print",
        "Write to the logger with a level; print is lost in production. Wrong: `print(error)`.",
        'print("payment failed for", user.email)\nreturn None',
    ),
    Guideline(
        "personal-data-log",
        "Log no personal data: e-mail addresses, names and card numbers are masked."
        " Wrong: `logger.info(email)`.",
        'logger.info("signup of %s, card %s", email, card_number)',
    ),
    Guideline(
        "html-escape",
        "Text of users is escaped in templates; do not mark it as safe. Wrong: `mark_safe(text)`.",
        'return mark_safe("<p>" + comment.body + "</p>")',
    ),
    Guideline(
        "csrf",
        "Forms that change something are protected against cross-site requests."
        " Wrong: `@csrf_exempt`.",
        "@csrf_exempt\ndef delete_account(request):\n    request.user.delete()",
    ),
    Guideline(
        "permission-check",
        "Each view checks that the object belongs to the user who asks for it."
        " Wrong: `objects.get(pk=number)`.",
        "def show_invoice(request, number):\n    return render(Invoice.objects.get(pk=number))",
    ),
    Guideline(
        "file-close",
        "Open files in a with statement so that they are closed after an error too."
        " Wrong: `handle = open(path)`.",
        'handle = open("report.csv")\nlines = handle.readlines()',
    ),
    Guideline(
        "float-equality",
        "Compare floating point numbers with a tolerance, such as math.isclose."
        " Wrong: `if share == 0.3`.",
        "if ratio == 0.1 + 0.2:\n    balanced = True",
    ),
    Guideline(
        "string-concat",
        "Join many strings with join; adding them in a loop is quadratic. Wrong: `text += part`.",
        'text = ""\nfor line in lines:\n    text += line + ";"',
    ),
    Guideline(
        "transaction",
        "Several writes that belong together are in one transaction."
        " Wrong: two calls of `save()` in a row.",
        "payer.balance -= amount\npayer.save()\npayee.balance += amount\npayee.save()",
    ),
    Guideline(
        "migration-lock",
        "A migration adds columns as nullable; a default rewrites and locks a large table."
        " Wrong: `op.add_column(..., server_default=...)`.",
        'op.add_column("events", Column("kind", Text, nullable=False, server_default="x"))',
    ),
    Guideline(
        "index",
        "A column that is filtered by has an index. Wrong: `Column(Text)` and `filter(...)` by it.",
        'Column("customer_email", Text)\nquery.filter(Customer.customer_email == email)',
    ),
    Guideline(
        "pagination",
        "Lists are paged; no endpoint returns all rows of a table. Wrong: `query(Model).all()`.",
        '@app.get("/orders")\ndef list_orders():\n    return session.query(Order).all()',
    ),
    Guideline(
        "retry-backoff",
        "Repeat failed calls with growing delays and a limit, not in a tight loop."
        " Wrong: `while not sent: submit()`.",
        "while not sent:\n    sent = gateway.submit(batch)",
    ),
    Guideline(
        "idempotency",
        "Payments carry an idempotency key, so that a repeated request charges once."
        " Wrong: `Charge.create(amount=amount)`.",
        "def charge(card, cents):\n    return stripe.Charge.create(card=card, amount=cents)",
    ),
    Guideline(
        "webhook-signature",
        "Verify the signature of a webhook before its body is used."
        " Wrong: `def receive(payload)` for hooks.",
        '@app.post("/hooks/github")\ndef receive(payload: dict):\n    deploy(payload["ref"])',
    ),
    Guideline(
        "yaml-load",
        "Parse YAML with safe_load; yaml.load builds any object. Wrong: `yaml.load(text)`.",
        "config = yaml.load(stream)\nreturn config",
    ),
    Guideline(
        "regex-redos",
        "No nested quantifiers in regular expressions: hostile text makes them hang."
        ' Wrong: `re.compile(r"(x*)*")`.',
        'VALID = re.compile(r"^(a+)+$")\nreturn bool(VALID.match(text))',
    ),
    Guideline(
        "thread-shared",
        "State that threads share is guarded by a lock. Wrong: `counter += 1` in a `Thread`.",
        "counter += 1\nThread(target=work, args=(counter,)).start()",
    ),
    Guideline(
        "image-size",
        "Uploaded images are limited in size before they are decoded. Wrong: `Image.open(body)`.",
        "picture = Image.open(upload)\npicture.thumbnail((200, 200))",
    ),
    Guideline(
        "cache-expiry",
        "Entries of a cache have an expiry; memory is finite. Wrong: `CACHE[key] = value`.",
        "CACHE = {}\nCACHE[user_id] = fetch_profile(user_id)",
    ),
    Guideline(
        "feature-flag",
        "New behaviour stands behind a feature flag until it is released."
        " Wrong: `return render_new_page()`.",
        "return render_new_checkout(basket)",
    ),
    Guideline(
        "translation",
        "Text that people read goes through gettext and is not written in code."
        ' Wrong: `label = "Cancel"`.',
        'button.label = "Buy now"\nheading.text = "Your basket is empty"',
    ),
    Guideline(
        "accessibility",
        "Images have an alternative text and inputs have a label."
        " Wrong: `<img src=...>` and `<input name=...>` alone.",
        '<img src="/static/chart.png">\n<input name="street">',
    ),
    Guideline(
        "docker-root",
        "Containers do not run as root: name a user in the Dockerfile."
        " Wrong: `FROM` and `CMD` without `USER`.",
        'FROM python:3.12\nCOPY . /app\nCMD ["python", "/app/main.py"]',
    ),
    Guideline(
        "pinned-versions",
        "Dependencies are pinned to exact versions in the requirements. Wrong: `requests>=2`.",
        "flask\nsqlalchemy>=1.4\nrequests",
    ),
    Guideline(
        "dead-code",
        "Remove code that is commented out; the history has it. Wrong: `# return result`.",
        "# result = old_algorithm(values)\n# return result[:10]",
    ),
)

SURROUNDINGS: Final = (
    ("def find_user(name, cursor):", "    name = name.strip()", "    return row"),
    ("class BasketView(View):", "    template = 'basket.html'", "    def get(self, request):"),
    ("async def main():", "    settings = Settings()", "    await start(settings)"),
    ("def test_order(client):", "    order = client.post('/orders')", "    assert order.ok"),
    ("@dataclass", "class Address:", "    street: str"),
    ("def upgrade():", "    table = 'events'", "    op.execute('ANALYZE')"),
    ("for row in reader:", "    key = row['id']", "    seen.add(key)"),
    ("from app import models", "from app import views", "router = Router()"),
    ("def render(self, context):", "    title = context['title']", "    return page"),
    ("if __name__ == '__main__':", "    parser = ArgumentParser()", "    parser.parse_args()"),
)
"""Lines around a change that have nothing to do with it."""


def list_diffs() -> tuple[ReviewedDiff, ...]:
    """Return all diffs; together they need each guideline once."""
    step = len(GUIDELINES) // HUNKS_PER_DIFF
    mixed = [GUIDELINES[first::step] for first in range(step)]
    return tuple(
        ReviewedDiff(
            "".join(_format_hunk(each, place + 3 * number) for number, each in enumerate(some)),
            frozenset(each.id for each in some),
        )
        for place, some in enumerate(mixed)
    )


def _format_hunk(guideline: Guideline, place: int) -> str:
    before, above, below = SURROUNDINGS[place % len(SURROUNDINGS)]
    added = "".join(f"+    {line}\n" for line in guideline.lines.split("\n"))
    return f"@@ -40,6 +40,8 @@\n {before}\n {above}\n{added} {below}\n \n"
