package redact

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// Text returns a text without what looks like a secret.
func Text(text string) string { return (&Secrets{}).Redact(text) }

// plainHeaders are names of headers that carry no credentials. A name that ends in "-" stands for all that begin so.
var plainHeaders = []string{
	"accept", "accept-", "cache-control", "connection", "content-", "date", "expect", "host", "if-", "keep-alive",
	"max-forwards", "origin", "pragma",
	"range", "referer", "sec-websocket-version", "te", "transfer-encoding", "upgrade", "upgrade-", "user-agent", "via",
	"x-forwarded-", "forwarded",
}

// plainWords are values of headers that are no secrets, whatever the header.
var plainWords = []string{
	"yes", "no", "true", "false", "on", "off", "check", "health", "healthcheck", "health-check", "ping", "probe",
	"monitor", "status", "haproxy",
	"keepalived", "ldirectord", "svcproxy", "http", "https", "close", "xmlhttprequest", "trailers", "*", "",
}

// Header reports whether the value of a header may be a secret. That of an unknown header may.
func Header(name, value string) bool {
	name = strings.ToLower(name)
	known := slices.ContainsFunc(plainHeaders, func(p string) bool {
		return name == p || strings.HasSuffix(p, "-") && strings.HasPrefix(name, p)
	})
	if known {
		return LooksSecret(value) || secretIn(urlOf(value))
	}
	return names(name) || !isNumber(value) && !isAddress(value) && !slices.Contains(plainWords, strings.ToLower(value))
}

// secretParts are the parts of names of what is secret, besides those of Key.
var secretParts = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)auth|key|pass|pwd|sig(n|$)|sess|sid$|cred|jwt|login|secret|token|cookie`)
})

// names reports whether a name says that its value is secret.
func names(name string) bool { return secretParts().MatchString(name) || Key(name) }

func urlOf(text string) string {
	_, rest, ok := strings.Cut(text, "://")
	if !ok {
		return ""
	}
	return rest
}

// Target reports whether a path with its query may have a secret: a user before an @, a parameter, or a long
// random word.
func Target(path string) bool { return LooksSecret(path) || secretIn(path) }

func secretIn(path string) bool {
	path, query, _ := strings.Cut(path, "?")
	path, params, _ := strings.Cut(path, ";")
	if strings.ContainsRune(path, '@') || slices.ContainsFunc(strings.Split(path, "/"), isRandom) {
		return true
	}
	isPair := func(r rune) bool { return r == '&' || r == ';' }
	for pair := range strings.FieldsFuncSeq(query+"&"+params, isPair) {
		name, value, _ := strings.Cut(pair, "=")
		letters := func(r rune) bool { return !unicode.IsLetter(r) && r != '-' && r != '_' && r != '.' }
		if names(name) || !isNumber(value) && !isAddress(value) &&
			(len(value) > 16 || strings.ContainsFunc(value, letters)) || isMixed(name) {
			return true
		}
	}
	return false
}

// logins are commands by which a client gives a password, or the first part of one.
var logins = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|[\r\n"\s])(?:auth|hello\s+\d+\s+auth|acl\s+setuser|pass|` +
		`user|login|identify|cram-md5|oper|` +
		`config\s+set\s+requirepass|a\d+\s+login|\.\s+login)(?:[\s,]|$)`)
})

// Bytes reports whether what is sent on a connection may have a secret: a login, a request with one, or a random word.
func Bytes(text string) bool {
	if logins().MatchString(text) || LooksSecret(text) {
		return true
	}
	for i, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\r' || r == '\n' }) {
		words := strings.Fields(line)
		name, value, isHeader := strings.Cut(line, ":")
		switch {
		case len(words) == 0:
		case i == 0 && len(words) > 1 && strings.HasPrefix(words[1], "/"):
			if Target(words[1]) {
				return true
			}
		case isHeader && i > 0 && !strings.ContainsAny(name, " \t"):
			if Header(name, strings.TrimSpace(value)) {
				return true
			}
		case slices.ContainsFunc(words, isRandom):
			return true
		}
	}
	return false
}

// secretFlags are options of programs whose next word, or the rest of whose word, is mostly a password.
var secretFlags = []string{"-p", "-P", "-a", "-u", "-U", "-H", "-b", "-A"}

// Args reports whether the arguments of a program may have a secret.
func Args(args []string) bool {
	for i, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch {
		case LooksSecret(a), isRandom(a), value != "" && names(name), secretURL(a):
			return true
		case strings.HasPrefix(a, "--") && value == "" && i+1 < len(args) && names(a):
			return true
		case slices.Contains(secretFlags, a) && i+1 < len(args) && mayBePassword(a, args[i+1]):
			return true
		case len(a) > 2 && slices.Contains(secretFlags[:4], a[:2]) && mayBePassword(a[:2], a[2:]) &&
			!slices.Contains(longFlags, a):
			return true
		case slices.Contains(longSecrets, a) && i+1 < len(args):
			return true
		}
	}
	return false
}

// longFlags and longSecrets are options with one dash and a long name, such as those of Nagios' plugins and of Java.
var (
	longFlags = []string{"-port", "-path", "-proto", "-protocol", "-ping", "-url", "-uri", "-user", "-udp", "-all",
		"-auto"}
	longSecrets = []string{"-password", "-pass", "-passwd", "-pw", "-token", "-secret", "-key", "-auth", "-authpassword",
		"-w1"}
)

func secretURL(word string) bool { rest := urlOf(word); return rest != "" && secretIn(rest) }

// mayBePassword reports whether the word behind an option may be a secret: a number or an address is none,
// and a user or a header is one only with a colon behind it, or as a cookie.
func mayBePassword(flag, word string) bool {
	switch {
	case isNumber(word), isAddress(word), strings.HasPrefix(word, "/"), strings.HasPrefix(word, "-"),
		strings.HasPrefix(word, "$SVCPROXY_"):
		return false
	case flag == "-u" || flag == "-U":
		_, password, _ := strings.Cut(word, ":")
		_, user, isURL := strings.Cut(word, "://")
		return password != "" && !isURL || isURL && secretIn(user) || strings.Contains(word, "%")
	case flag == "-H":
		name, value, isHeader := strings.Cut(word, ":")
		_, err := strconv.ParseUint(value, 10, 16)
		return isHeader && err != nil && Header(name, strings.TrimSpace(value))
	}
	return true
}

// LooksSecret reports whether something in a text looks like a secret.
func LooksSecret(text string) bool { return Text(text) != text }

// leastRandom is the length from which a word of letters and digits counts as random, in bytes.
const leastRandom = 16

// isRandom reports whether a word may be a key: it is long, and has letters and digits mixed.
func isRandom(word string) bool {
	return len(word) >= leastRandom && isMixed(word) && !strings.ContainsAny(word, "/:%") && !isAddress(word) &&
		!versioned().MatchString(word)
}

// versioned are names with numbers behind words, such as db-primary-01 or check_http_2.
var versioned = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[A-Za-z]+[-_.])+[A-Za-z]*\d{1,4}(?:[-_.][A-Za-z]+)*$`)
})

func isMixed(word string) bool {
	return strings.ContainsFunc(word, unicode.IsDigit) && strings.ContainsFunc(word, unicode.IsLetter)
}

func isNumber(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsDigit(r) && r != '.' && r != ','
	})
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(strings.Trim(text, "[]"))
	_, err2 := netip.ParseAddrPort(text)
	return err == nil || err2 == nil
}
