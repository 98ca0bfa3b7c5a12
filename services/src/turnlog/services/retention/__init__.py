"""Retention: policies and holds, what they refuse, and the schedule that erases what is due."""
