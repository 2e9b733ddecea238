package encoded

// Octet is how many bytes FirstQuoting and FirstEscaping look at together.
const Octet = octet

// FirstQuoting and FirstEscaping are where in eight bytes the first stands that is looked for.
func FirstQuoting(s string) int  { return first(quoting(load(s))) }
func FirstEscaping(s string) int { return first(escaping(load(s))) }
