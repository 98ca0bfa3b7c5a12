"""A sample MCP server of a harbour, for the uderia demo and for trying tools.

`python -m turnlog.services.sample_servers.harbour` serves twenty tools and a prompt by MCP over
standard input and output. Its data is invented and constant, and large enough that prompts should
not include all of it. The docstrings are the descriptions that models read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt

SAILINGS: Final = 1_000
_SHIPS: Final = ("Avocet", "Bittern", "Curlew", "Dunlin", "Egret", "Fulmar", "Gannet", "Heron")
_PORTS: Final = ("Holm", "Lund", "Marsh", "Ness", "Sound")
_LATE: Final = (0, 0, 4, 0, 11, 0, 0, 26, 0, 2, 0, 0, 48)
"""Delays in minutes, assigned in turn."""

Row = dict[str, Any]


def _get_ship(number: int) -> str:
    return _SHIPS[number % len(_SHIPS)]


def _build_sailing(number: int) -> Row:
    hour, minute = divmod(6 * 60 + number * 61 // 60, 60)
    return {
        "sailing": f"S{number:04}",
        "ship": _get_ship(number),
        "to": _PORTS[number % len(_PORTS)],
        "at": f"{hour % 24:02}:{minute:02}",
        "late": _LATE[number % len(_LATE)],
    }


def departures() -> list[Row]:
    """List all sailings of yesterday: ship, port, time, and how many minutes late it left."""
    return [_build_sailing(number) for number in range(SAILINGS)]


def arrivals() -> list[Row]:
    """List the ships that are expected today, with the time of each."""
    return [{"ship": ship, "at": f"{9 + n:02}:30"} for n, ship in enumerate(_SHIPS)]


def delays(over: int = 15) -> Row:
    """Count yesterday's sailings that left more than so many minutes late, ship by ship."""
    late = [each for each in departures() if each["late"] > over]
    by_ship = {ship: sum(each["ship"] == ship for each in late) for ship in _SHIPS}
    return {"over": over, "sailings": SAILINGS, "late": len(late), "by_ship": by_ship}


def weather(day: str = "yesterday") -> Row:
    """Tell wind and sight of a day, morning and evening."""
    return {
        "day": day,
        "morning": {"wind": "W 3", "sight": "good"},
        "evening": {"wind": "NW 8", "sight": "poor"},
    }


def tides(day: str = "today") -> Row:
    """Tell high and low water of a day."""
    return {"day": day, "high": ["03:12", "15:40"], "low": ["09:25", "21:51"]}


def berths() -> list[Row]:
    """List the berths, and which ship lies at each."""
    return [{"berth": n, "ship": ship} for n, ship in enumerate(_SHIPS, 1)]


def vessel(ship: str) -> Row:
    """Describe a ship: its length in metres, its draught, and how many it carries."""
    return {"ship": ship, "length": 40 + 7 * len(ship), "draught": 3.5, "passengers": 220}


def crew(ship: str) -> Row:
    """Tell how many are on duty aboard a ship, and how many there should be."""
    return {"ship": ship, "on_duty": 11 if ship == "Heron" else 14, "wanted": 14}


def captain(ship: str) -> Row:
    """Name the captain of a ship."""
    return {"ship": ship, "captain": f"Captain {ship[:1]}. Strand"}


def cargo(ship: str) -> Row:
    """List what a ship carries beside passengers, in tonnes."""
    return {"ship": ship, "mail": 2, "timber": 31, "fish": 12}


def route(to: str) -> Row:
    """Describe the route to a port: its length in sea miles and the planned time in minutes."""
    return {"to": to, "miles": 12 + len(to), "minutes": 55}


def pilots() -> Row:
    """Tell how many pilots are on duty and how many ships wait for one."""
    return {"on_duty": 3, "waiting": 1}


def tugs() -> list[Row]:
    """List the tugs and whether each is free."""
    return [{"tug": name, "free": name != "Otter"} for name in ("Badger", "Otter", "Stoat")]


def moorings() -> Row:
    """Tell which moorings are closed, and why."""
    return {"closed": [4], "why": "a chain is being replaced"}


def locks() -> Row:
    """Tell when the lock is opened next, and how many wait."""
    return {"next": "16:00", "waiting": 2}


def fuel() -> Row:
    """Tell the price of fuel a tonne, by its kind."""
    return {"gas_oil": 612, "fuel_oil": 455}


def fees(ship: str) -> Row:
    """Tell what a ship pays a day at berth."""
    return {"ship": ship, "fee": 180 + 7 * len(ship)}


def notices() -> list[str]:
    """List the harbour master's notices."""
    return ["Mooring 4 is closed.", "Speed limit of 5 knots behind the mole."]


def incidents(day: str = "yesterday") -> list[Row]:
    """List what was reported on a day."""
    return [{"day": day, "at": "17:40", "what": "Sailings were held for the wind."}]


def complaints(ship: str) -> Row:
    """Count the complaints of passengers of a ship this month."""
    return {"ship": ship, "complaints": len(ship) - 3}


TOOLS: Final[tuple[Callable[..., object], ...]] = (
    *(departures, arrivals, delays, weather, tides, berths, vessel, crew, captain, cargo),
    *(route, pilots, tugs, moorings, locks, fuel, fees, notices, incidents, complaints),
)


def delay_report(day: str = "yesterday") -> str:
    """Tell how the harbour master wants the delays of a day reported."""
    return (
        f"Report the delays of {day} in this order: how many sailings were late, of how many, and"
        " how they spread over the ships; then the likely cause, with the wind of the day. Count a"
        " sailing as late beyond 15 minutes. Name no captain."
    )


def main() -> None:
    """Serve until standard input ends."""
    server = MCPServer("harbour")
    for tool in TOOLS:
        server.add_tool(tool)
    server.add_prompt(Prompt.from_function(delay_report))
    server.run("stdio")


if __name__ == "__main__":
    main()
