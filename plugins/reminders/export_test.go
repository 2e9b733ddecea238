package main

// What the tests see besides the tools.
var (
	NewHandler    = handler
	ParseCalendar = parseCalendar
	Fold          = fold
	Escape        = escape
	Unescape      = unescape
	FileName      = fileName
)

// Zoned is [zoned] for a calendar as text.
var Zoned = zoned

// Calendar is the first calendar of a file.
func (c *component) Calendar() *component { return c.children("VCALENDAR")[0] }
