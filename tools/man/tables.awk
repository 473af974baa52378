# Put the tool's own tables into a man page:
#
#   awk -v compat=1 -f tables.awk TABLES PAGE.scd | scdoc       TABLES is what "tidelock help tables" prints
#
#   @option COMMAND NAME ...@   the head of an entry: these options, with their letters and values
#   @legacy COMMAND@            the head of an entry: all options of the command about legacy clients
#   @common@                    the head of an entry: the options of every command
#   @statuses COMMAND@          a table of its exit statuses; of several commands, each meaning with its command
#   @members NAME ...@          a table of the members of this object in JSON; of several lists, in one table
#
# Each marker is a line of its own, which may be indented. The command "-" stands for the options of every command. A
# marker for something unknown fails. So does a page that has some options of a command and lacks others; those about
# legacy clients count apart. With
# compat=0, a build without legacy clients, what is unknown is left out, with the text of its entry.
BEGIN { FS = "\t" }

FNR == NR && $1 == "option" {
    part[$2, $5] = $3
    head[$2, $5] = ($4 == "-" ? "" : "*" $4 "*, ") "*" $5 "*" value($6, $7)
    options[$2] = options[$2] " " $5
    next
}
FNR == NR && $1 == "status" {
    short[$2, $3] = $4
    long[$2, $3] = $5
    if (!(($2, $3) in seen) && $3 + 0 >= 0) statuses[$3 + 0] = 1
    seen[$2, $3] = 1
    next
}
FNR == NR && $1 == "member" {
    members[$2] = members[$2] "|  " $3 "\n:  " $4 "\n"
    next
}
FNR == NR { fail("unknown line of the tables: " $0) }

skipping && (/^$/ || indented()) { next }
skipping { skipping = 0 }
/^\t*@[a-z]+.*@$/ {
    match($0, /^\t*/)
    margin = substr($0, 1, RLENGTH)
    count = split(substr($0, RLENGTH + 2, length($0) - RLENGTH - 2), word, " ")
    made = ""
    if (word[1] == "option") option_head()
    else if (word[1] == "legacy") legacy_head()
    else if (word[1] == "common") common_head()
    else if (word[1] == "statuses") status_table()
    else if (word[1] == "members") member_table()
    else fail("unknown marker " $0)
    if (made != "") print margin made
    else skipping = 1
    next
}
/@(option|legacy|common|statuses|members)[ @]/ { fail("a marker that is not alone in its line: " $0) }
{ print }

END {
    if (failed) exit 1
    for (each in described) {
        split(each, of, SUBSEP)
        n = split(options[of[1]], name, " ")
        for (i = 1; i <= n; i++)
            if (part[of[1], name[i]] == of[2] && !((of[1], name[i]) in shown)) fail("lacks " name[i] " of " of[1])
    }
    if (failed) exit 1
}

function fail(why) {
    printf "%s: %s\n", FILENAME, why >"/dev/stderr"
    failed = 1
    exit 1
}

# Does the line belong to the entry whose head was left out?
function indented() { return substr($0, 1, length(margin) + 1) == margin "\t" }

# The value behind an option: "term|kill" as *term*|*kill*, "HOST[:PORT]" as _HOST_[:_PORT_].
function value(text, kind,    made) {
    if (text == "-") return ""
    if (kind == "choice") {
        gsub(/\|/, "*|*", text)
        return " *" text "*"
    }
    made = substr(text, 1, 2) == "[=" ? "" : " "
    while (match(text, /[A-Z]+/)) {
        made = made substr(text, 1, RSTART - 1) "_" substr(text, RSTART, RLENGTH) "_"
        text = substr(text, RSTART + RLENGTH)
    }
    return made text
}

function option_head(    i, separator) {
    for (i = 3; i <= count; i++) {
        if (!((word[2], "--" word[i]) in head)) {
            if (compat) fail("no option --" word[i] " of " word[2])
            continue
        }
        shown[word[2], "--" word[i]] = 1
        described[word[2], part[word[2], "--" word[i]]] = 1
        made = made separator head[word[2], "--" word[i]]
        separator = ", "
    }
}

function names(command, wanted,    i, n, name, list, separator) {
    n = split(options[command], name, " ")
    for (i = 1; i <= n; i++)
        if (part[command, name[i]] == wanted) {
            shown[command, name[i]] = 1
            list = list separator "*" name[i] "*"
            separator = ", "
        }
    return list
}

function legacy_head() {
    made = names(word[2], "legacy")
    if (made == "" && compat) fail("no options about legacy clients of " word[2])
}

function common_head() { made = names("-", "own") }

function capital(text) { return toupper(substr(text, 1, 1)) substr(text, 2) }

# What a command says of a status; with several, "*lock*, *run*: text" for each text.
function meaning(status,    i, j, text, who, given) {
    if (count == 2) {
        if ((word[2], status) in long) return capital(long[word[2], status])
        return ("-", status) in long && short["-", status] != "-" ? capital(short["-", status]) : ""
    }
    text = ("-", status) in long ? capital(long["-", status]) : ""
    for (i = 2; i <= count; i++) {
        if (!((word[i], status) in long) || i in given) continue
        who = "*" word[i] "*"
        for (j = i + 1; j <= count; j++)
            if ((word[j], status) in long && long[word[j], status] == long[word[i], status]) {
                who = who ", *" word[j] "*"
                given[j] = 1
            }
        text = text (text == "" ? "" : "; ") who ": " long[word[i], status]
    }
    return text
}

function status_table(    i, text) {
    for (i = 2; i <= count; i++)
        if (compat && !((word[i]) in options) && !((word[i], 0) in long)) fail("unknown command " word[i])
    made = "|[ *Status*\n:< *Meaning*\n"
    for (i = 0; i <= 128; i++)
        if (i in statuses && (text = meaning(i)) != "") made = made "|  " (i == 128 ? "128+n" : i) "\n:  " text "\n"
}

function member_table(    i) {
    for (i = 2; i <= count; i++) {
        if (!(word[i] in members) && compat) fail("no members of " word[i])
        made = made members[word[i]]
    }
    if (made != "") made = "|[ *Member*\n:< *Meaning*\n" made
}
