package policy

// shipped is embedded, so that an installation without a policy file has rules
// that can be read, and not a hole.
const shipped = `# The policy that nacre ships. The first rule that matches decides;
# what no rule names is denied.
default = "deny"

[[rules]]
name = "sensitive data is asked"
action = "ask"
reason = "this touches personal data, card data or secrets"
[rules.match]
sensitivity = ["PII", "PCI", "SECRETS"]

# What a tainted session would change is asked, unless the operator or a
# trusted result named every value that matters. A value seen nowhere may come
# from anywhere; so may what a call without such values does.
[[rules]]
name = "a tainted session asks before it writes"
action = "ask"
reason = "the session has read text from outside, and not every value comes from you or a trusted result"
[rules.match]
safety_class = ["WRITE"]
roles = ["writer"]
taint = true
provenance = ["untrusted", "nowhere"]

[[rules]]
name = "a tainted session asks before it destroys"
action = "ask"
reason = "this cannot be undone, and the session has read text from outside"
[rules.match]
safety_class = ["DESTRUCTIVE"]
taint = true
provenance = ["untrusted", "nowhere"]

[[rules]]
name = "a tainted session asks before it changes what later sessions do"
action = "ask"
reason = "later sessions act on this, and the session has read text from outside"
[rules.match]
safety_class = ["READ"]
behavioural = true
taint = true
provenance = ["untrusted", "nowhere"]

# Text of a repository taints no session, but the values it may have chosen.
[[rules]]
name = "values from untrusted text are asked"
action = "ask"
reason = "the session has read untrusted text, and not every value comes from you or a trusted result"
[rules.match]
safety_class = ["WRITE"]
roles = ["writer"]
read_untrusted = true
sinks = true
provenance = ["untrusted", "nowhere"]

# Whoever chooses what is fetched is told so by the fetch.
[[rules]]
name = "what is fetched with values from untrusted text is asked"
action = "ask"
reason = "this reads from where an outsider's text may have said, and not every value comes from you or a trusted result"
[rules.match]
safety_class = ["READ"]
read_untrusted = true
sinks = true
provenance = ["untrusted", "nowhere"]

[[rules]]
name = "reading is free"
action = "allow"
[rules.match]
safety_class = ["READ"]

[[rules]]
name = "writers may write"
action = "allow"
[rules.match]
safety_class = ["WRITE"]
roles = ["writer"]

[[rules]]
name = "what destroys is asked"
action = "ask"
reason = "this cannot be undone"
[rules.match]
safety_class = ["DESTRUCTIVE"]
`
