package recall

// regular gives the common form of a word whose other forms no ending makes, so
// that sold is found by sell, and mice by mouse. What may as well be another word,
// such as left or ground, stays as it is.
func regular(word string) string {
	for _, part := range [...]func(string) string{earlyVerbs, lateVerbs, lastVerbsAndNouns} {
		if form := part(word); form != "" {
			return form
		}
	}
	return word
}

func earlyVerbs(word string) string {
	switch word {
	case "ate", "eaten":
		return "eat"
	case "became":
		return "become"
	case "began", "begun":
		return "begin"
	case "bought":
		return "buy"
	case "brought":
		return "bring"
	case "built":
		return "build"
	case "broke", "broken":
		return "break"
	case "caught":
		return "catch"
	case "chose", "chosen":
		return "choose"
	case "came":
		return "come"
	case "drank", "drunk":
		return "drink"
	case "drew", "drawn":
		return "draw"
	case "drove", "driven":
		return "drive"
	case "fell", "fallen":
		return "fall"
	case "flew", "flown":
		return "fly"
	case "forgot", "forgotten":
		return "forget"
	case "fought":
		return "fight"
	case "gave", "given":
		return "give"
	case "grew", "grown":
		return "grow"
	case "heard":
		return "hear"
	case "held":
		return "hold"
	case "hid", "hidden":
		return "hide"
	case "kept":
		return "keep"
	}
	return ""
}

func lateVerbs(word string) string {
	switch word {
	case "knew", "known":
		return "know"
	case "lent":
		return "lend"
	case "lost":
		return "lose"
	case "made":
		return "make"
	case "meant":
		return "mean"
	case "met":
		return "meet"
	case "paid":
		return "pay"
	case "ran":
		return "run"
	case "rode", "ridden":
		return "ride"
	case "said":
		return "say"
	case "sang", "sung":
		return "sing"
	case "sent":
		return "send"
	case "shook", "shaken":
		return "shake"
	case "slept":
		return "sleep"
	case "sold":
		return "sell"
	case "spent":
		return "spend"
	case "spoke", "spoken":
		return "speak"
	case "stole", "stolen":
		return "steal"
	case "stood":
		return "stand"
	case "swam", "swum":
		return "swim"
	case "taken", "took":
		return "take"
	case "taught":
		return "teach"
	case "thought":
		return "think"
	}
	return ""
}

func lastVerbsAndNouns(word string) string {
	switch word {
	case "threw", "thrown":
		return "throw"
	case "told":
		return "tell"
	case "understood":
		return "understand"
	case "went", "gone":
		return "go"
	case "woke", "woken":
		return "wake"
	case "won":
		return "win"
	case "wore", "worn":
		return "wear"
	case "wrote", "written":
		return "write"
	case "children":
		return "child"
	case "feet":
		return "foot"
	case "geese":
		return "goose"
	case "halves":
		return "half"
	case "indices":
		return "index"
	case "knives":
		return "knife"
	case "men":
		return "man"
	case "mice":
		return "mouse"
	case "people":
		return "person"
	case "shelves":
		return "shelf"
	case "teeth":
		return "tooth"
	case "wives":
		return "wife"
	case "wolves":
		return "wolf"
	case "women":
		return "woman"
	}
	return ""
}
