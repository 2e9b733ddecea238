package repo_test

func landChild(string) int { return 2 }
