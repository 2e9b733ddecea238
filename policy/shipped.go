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
