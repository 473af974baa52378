# Manual pages of the library, section 3, made from the comments of its public headers: one for each function, struct, enum
# and callback, and one for each header, of which tidelock(3) is the overview. Nothing is said in two places.
#
#   awk -v dir=OUT -v version=V -v date=YYYY-MM-DD -f man3.awk HEADER... EXAMPLE.c...
#
# tidelock.h comes first. Of a header of C++ the head is shown alone. It reads comments as the house writes them:
#   /** ... */ before a declaration or a member, /**< ... */ behind it, /* ... */ at the top of a file or behind a struct;
#   "name  text" a parameter, "returns  text", "TL_X, TL_Y  text" a result; "TL_X, TL_Y" alone: as tl_err says;
#   four spaces: code; "  - text" an item; "  NAME  text" a word that is explained.
# Whatever it can't read is an error.

function refuse(what) {
    print "man3.awk: " file ": " what >"/dev/stderr"
    failed = 1
}
function trim(s) { sub(/^[ \t]+/, "", s); sub(/[ \t]+$/, "", s); return s }
function squeeze(s) { gsub(/[ \t\n]+/, " ", s); return trim(s) }

# ---- reading: comments and code, one after the other ----------------------------------------------

FNR == 1 {
    file = FILENAME
    base = file; sub(/.*\//, "", base)
    is_example = file ~ /\.c(pp)?$/
    is_cxx = file ~ /\.hpp$/
    if (is_example) example_files[++examples] = base
    else begin_header()
}
is_example { example_text[base] = example_text[base] " " $0; next }
is_cxx && head_of[of] != "" { next } # what comes behind its head is C++, which this can't read
{ read_line($0) }
END {
    if (!failed) write_all()
    exit failed
}

function begin_header() {
    of = base
    headers[++header_count] = base
    head_of[base] = ""
    in_comment = 0; body = 0; buf = ""; pending = ""; last = ""; cpp = 0
}

function read_line(line, at, end, directive, before) {
    if (!in_comment && line ~ /^[ \t]*#/) {
        if (line ~ /^#ifdef __cplusplus/) { cpp = 1; return }
        if (line ~ /^#(else|endif)/) { cpp = 0; return }
        if (cpp) return
        at = index(line, "/*")
        directive = at ? substr(line, 1, at - 1) : line
        if (directive ~ /^#define TL_/) define(directive)
        if (!at) return
        line = substr(line, at)
    }
    if (cpp) return
    while (line != "") {
        if (in_comment) {
            end = index(line, "*/")
            if (!end) { comment = comment "\n" line; return }
            comment = comment "\n" substr(line, 1, end - 1)
            line = substr(line, end + 2)
            in_comment = 0
            commented(comment)
        } else {
            at = index(line, "/*")
            if (!at) { code(line); return }
            before = substr(line, 1, at - 1)
            code(before)
            beside = before ~ /[^ \t]/ # a plain comment that stands beside code says nothing to readers of a page
            comment = ""
            line = substr(line, at + 2)
            kind = "plain"
            if (line ~ /^\*</) { kind = "behind"; line = substr(line, 3) }
            else if (line ~ /^\*/) { kind = "doc"; line = substr(line, 2) }
            in_comment = 1
            end = index(line, "*/")
            if (end) {
                comment = substr(line, 1, end - 1)
                line = substr(line, end + 2)
                in_comment = 0
                commented(comment)
            } else { comment = line; return }
        }
    }
}

# Its lines without the stars in front of them.
function bare(text, n, i, lines, out, line) {
    n = split(text, lines, "\n")
    for (i = 1; i <= n; i++) {
        line = lines[i]
        if (i > 1 && kind == "behind") line = trim(line)
        else if (i > 1) sub(/^[ \t]*\*? ?/, "", line)
        else sub(/^ /, "", line)
        sub(/[ \t]+$/, "", line)
        out = out (i > 1 ? "\n" : "") line
    }
    sub(/^\n+/, "", out); sub(/\n+$/, "", out)
    return out
}

function commented(text, said) {
    said = bare(text)
    if (kind == "behind") {
        if (body && squeeze(buf) != "") trailing = said
        else if (body && members[page] > 0) member_said[page, members[page]] = said
        else if (!body && last_define != "") define_said[last_define] = said
        else refuse("nothing is in front of: " said)
    } else if (kind == "doc") {
        if (pending != "") refuse("two comments before one declaration: " said)
        pending = said
    } else if (body) {
        if (beside) return
        add_member("", "", said)
    } else if (said ~ /^---- /) {
        return
    } else if (head_of[of] == "" && last == "") {
        head_of[of] = said
    } else if (!beside) {
        if (last == "") refuse("a comment that belongs to nothing: " said)
        notes[last] = notes[last] (notes[last] == "" ? "" : "\n\n") said
    }
}

function define(directive, parts, name, value) {
    name = directive; sub(/^#define /, "", name); value = name
    sub(/[ (].*/, "", name)
    last_define = name
    if (directive ~ /^#define [A-Z_]+\(/ && pending == "") { maker[last] = name; return }
    if (pending != "") { define_said[name] = pending; pending = "" }
    sub(/^[A-Z_0-9]+(\([^)]*\))? */, "", value)
    define_of[++defines] = name
    define_in[name] = of
    define_value[name] = trim(value)
}

function code(text, i, c) {
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (!body && c == "{") { open_body(squeeze(buf)); buf = "" }
        else if (body && c == "}") { end_member(); body = 2; buf = "" }
        else if (body == 2 && c == ";") { close_body(squeeze(buf)); buf = "" }
        else if (body == 1 && (c == ";" || (c == "," && enumerated))) { end_member(); buf = "" }
        else if (!body && c == ";") { declared(squeeze(buf)); buf = "" }
        else buf = buf c
    }
    buf = buf " "
}

function open_body(what) {
    if (what !~ /^typedef (struct|enum)( [a-z_]+)?$/) refuse("what is this: " what)
    enumerated = what ~ /enum/
    body = 1
    page = "?"
    members[page] = 0
    doc_before = pending
    pending = ""
}

function add_member(declaration, name, said, n) {
    n = ++members[page]
    member[page, n] = declaration
    member_name[page, n] = name
    member_said[page, n] = said
}

function end_member(d) {
    d = squeeze(buf)
    buf = ""
    if (d != "") {
        add_member(d, name_in(d), pending != "" ? pending : trailing)
        pending = trailing = ""
    }
}

# The name that is declared: of "void (*log)(int level)", "char message[240]", "const char *url", "TL_OK = 0".
function name_in(d) {
    if (match(d, /\(\*[a-z_]+\)/)) return substr(d, RSTART + 2, RLENGTH - 3)
    sub(/ *=.*/, "", d); sub(/\[.*/, "", d)
    match(d, /[A-Za-z_0-9]+$/)
    return substr(d, RSTART, RLENGTH)
}

function close_body(name, i) {
    body = 0
    new_page(name, enumerated ? "enum" : "struct", doc_before)
    members[name] = members["?"]
    for (i = 1; i <= members[name]; i++) {
        member[name, i] = member["?", i]
        member_name[name, i] = member_name["?", i]
        member_said[name, i] = member_said["?", i]
        if (enumerated) constant_said[member_name[name, i]] = member_said[name, i]
    }
}

function new_page(name, what, said) {
    pages[++page_count] = name
    page_kind[name] = what
    page_said[name] = said
    page_header[name] = of
    last = name
    if (said == "") refuse(name " has no comment")
    last_define = ""
    pending = ""
}

function declared(d, name) {
    if (d == "" || d ~ /^extern "C"/) return
    if (d ~ /^(typedef )?struct [a-z_]+( [a-z_]+)?$/) { pending = ""; last_define = ""; return } # its members are nobody's business
    if (d ~ /^typedef /) { name = name_in(d); new_page(name, "callback", pending) }
    else if (match(d, /tl_[a-z_]+\(/)) { name = substr(d, RSTART, RLENGTH - 1); new_page(name, "function", pending) }
    else { refuse("what is this: " d); return }
    prototype[name] = d
}

# ---- writing ----------------------------------------------------------------------------------------

# Text between names, as roff wants it.
function plain(s) {
    gsub(/\\/, "\\e", s)
    gsub(/'/, "\\(aq", s)
    gsub(/\^/, "\\(ha", s)
    gsub(/~/, "\\(ti", s)
    gsub(/\xe2\x80\xa6/, "...", s)
    gsub(/--/, "\\-\\-", s)
    if (s ~ /(^|[ (,])-$/) sub(/-$/, "\\-", s)
    while (match(s, /(^|[ (,])-[0-9]/)) s = substr(s, 1, RSTART + RLENGTH - 3) "\\-" substr(s, RSTART + RLENGTH - 1)
    return s
}

# As it is, for code.
function literal(s) {
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    gsub(/'/, "\\(aq", s)
    gsub(/`/, "\\(ga", s)
    gsub(/\^/, "\\(ha", s)
    gsub(/~/, "\\(ti", s)
    gsub(/\xe2\x80\xa6/, "...", s)
    return s
}

# Text: functions and types are bold, with the section; constants bold, parameters italic.
function fmt(s, out, word, rest, tick) {
    while ((tick = index(s, "`")) > 0) {
        rest = substr(s, tick + 1)
        word = index(rest, "`")
        if (!word) break
        out = out fmt_words(substr(s, 1, tick - 1)) "\\fB" literal(substr(rest, 1, word - 1)) "\\fR"
        s = substr(rest, word + 1)
    }
    if (tick) gsub(/`/, "\\(ga", s)
    return out fmt_words(s)
}
function fmt_words(s, out, word, rest) {
    while (match(s, /[A-Za-z_][A-Za-z_0-9]*/)) {
        word = substr(s, RSTART, RLENGTH)
        rest = substr(s, RSTART + RLENGTH)
        out = out plain(substr(s, 1, RSTART - 1)) # which matches, too
        if (word in page_kind) {
            if (rest ~ /^\(\)/) rest = substr(rest, 3)
            out = out "\\fB" word "\\fR" (word == this || rest ~ /^\.[a-z]/ ? "" : "(3)")
            if (word != this) seen[word] = 1
        } else if (word ~ /^TL_[A-Z]/) out = out "\\fB" word "\\fR"
        else if (word in params) out = out "\\fI" word "\\fR"
        else out = out word
        s = rest
    }
    return out plain(s)
}

function put(line) { print line >out }
function text(line) { # of a comment
    line = fmt(line)
    put((line ~ /^[.']/ ? "\\&" : "") line)
}

# A block of a comment's lines. State of the block: what kind of list is open.
function flow(said, n, i, lines, line, state, need) {
    n = split_lines(said, lines)
    state = ""
    need = 0
    for (i = 1; i <= n; i++) {
        line = lines[i]
        if (line == "") { if (state == "code") put(".EE\n.RE\n.nh"); state = ""; need = 1; continue }
        if (state == "code" || (state == "" && line ~ /^    /)) {
            if (state == "") put((need ? ".PP\n" : "") ".RS 4\n.EX")
            state = "code"; need = 0
            put(literal(substr(line, 5)))
            continue
        }
        if (line ~ /^ *- /) { put(".IP \\(bu 3"); sub(/^ *- /, "", line); state = "item" }
        else if (line ~ /^  [A-Za-z_]+  +[^ ]/) {
            line = trim(line)
            put(".TP\n" fmt(substr(line, 1, index(line, "  ") - 1)))
            line = substr(line, index(line, "  "))
            state = "item"
        } else if (state == "" && need) { put(".PP"); state = "text" }
        else if (state == "item" && line !~ /^  /) { put(".PP"); state = "text" }
        need = 0
        text(trim(line))
    }
    if (state == "code") put(".EE\n.RE\n.nh")
}

# What a page says of itself in one line: its first sentence, up to a colon or semicolon.
function summary(said, s) {
    s = said
    if (index(s, "\n\n")) s = substr(s, 1, index(s, "\n\n") - 1)
    s = squeeze(s)
    if (match(s, /([.;:]( |$)|, as (a|an|the) | \()/)) s = substr(s, 1, RSTART - 1)
    gsub(/`/, "", s)
    if (substr(s, 2, 1) !~ /[A-Z]/) s = tolower(substr(s, 1, 1)) substr(s, 2)
    return plain(s)
}

function open_page(name, about) {
    this = name
    out = dir "/" name ".3"
    split("", seen)
    put(".TH " name " 3 " date " \"tidelock " version "\" \"tidelock's library\"")
    put(".nh\n.ad l")
    put(".SH NAME\n" name (name in maker ? ", " maker[name] : "") " \\- " about)
}

# Splits a function's comment: description, parameters, returns, results.
function take_apart(said, n, i, lines, line, row, label, rest) {
    description = ""; parameter_count = 0; result_count = 0
    row = ""
    n = split(said, lines, "\n")
    for (i = 1; i <= n; i++) {
        line = lines[i]
        if (line ~ /^(TL_[A-Z]+, )*TL_[A-Z]+$/ || line ~ /^ +(TL_[A-Z]+, )+TL_[A-Z]+$/) {
            label = trim(line)
            result[++result_count] = label; result_said[result_count] = ""
            row = ""
        } else if (line ~ /^ *(TL_[A-Z]+, )*TL_[A-Z]+  +[^ ]/) {
            line = trim(line)
            result[++result_count] = substr(line, 1, index(line, "  ") - 1)
            result_said[result_count] = trim(substr(line, index(line, "  ")))
            row = "result"
        } else if (line ~ /^[a-z_]+(, [a-z_]+)*  +[^ ]/) {
            parameter[++parameter_count] = substr(line, 1, index(line, "  ") - 1)
            parameter_said[parameter_count] = trim(substr(line, index(line, "  ")))
            row = "parameter"
        } else if (row != "" && line ~ /^  +/) {
            if (row == "result") result_said[result_count] = result_said[result_count] "\n" trim(line)
            else parameter_said[parameter_count] = parameter_said[parameter_count] "\n" trim(line)
        } else {
            row = ""
            description = description line "\n"
        }
    }
    sub(/\n+$/, "", description)
    gsub(/\n\n\n+/, "\n\n", description)
}

function lines_of(said, n, i, lines) {
    n = split_lines(said, lines)
    for (i = 1; i <= n; i++) text(trim(lines[i]))
}

# What stands between backticks stays on one line.
function split_lines(said, lines, n, i, m) {
    n = split(said, lines, "\n")
    for (i = 1; i <= n; i++) {
        if (m && lines[m] != "" && gsub(/`/, "`", lines[m]) % 2) lines[m] = lines[m] " " trim(lines[i])
        else lines[++m] = lines[i]
    }
    return m
}

# The prototype, as a line for each parameter when it is long.
function synopsis(name, p, list, n, i, parts, front) {
    put(".SH SYNOPSIS\n.nf\n.B #include <tidelock/" page_header[name] ">\n.PP")
    p = prototype[name]
    split("", params)
    list = substr(p, index(p, "("))
    if (page_kind[name] == "callback") list = substr(list, index(list, ")") + 1)
    front = substr(p, 1, length(p) - length(list))
    list = substr(list, 2, length(list) - 2)
    n = split(list, parts, ", ")
    for (i = 1; i <= n; i++) if (list != "void") params[name_in(parts[i])] = 1
    split("", types)
    for (i = 1; i <= n; i++) {
        match(parts[i], /tl_[a-z_]+/)
        if (RSTART) types[substr(parts[i], RSTART, RLENGTH)] = 1
    }
    if (length(p) < 76) { put("\\fB" literal(p) ";\\fR"); put(".fi"); return }
    for (i = 1; i <= n; i++)
        put((i == 1 ? "\\fB" literal(front) "(" : "\\fB    ") literal(parts[i]) (i == n ? ");" : ",") "\\fR")
    put(".fi")
}

function results(name, i, n, j, names, returns) {
    for (i = 1; i <= parameter_count; i++) if (parameter[i] == "returns") returns = parameter_said[i]
    if (returns == "" && prototype[name] !~ /^tl_err / && !result_count) return
    put(".SH RETURN VALUE")
    if (returns != "") {
        lines_of(returns)
        if ("err" in params) put(".PP")
    } else if (prototype[name] ~ /^tl_err /) {
        put("A \\fBtl_err\\fR(3): \\fBTL_OK\\fR, which is 0, or what went wrong.")
        if ("err" in params) put(".PP")
        seen["tl_err"] = 1
    }
    if ("err" in params && page_kind[name] == "function") {
        put("\\fIerr\\fR is a \\fBtl_error\\fR(3).")
        lines_of(page_said["tl_error"])
        seen["tl_error"] = 1
    }
    if (result_count) put(".SH RESULTS")
    for (i = 1; i <= result_count; i++) {
        if (result_said[i] != "") {
            put(".TP\n" fmt(result[i]))
            lines_of(result_said[i])
            continue
        }
        n = split(result[i], names, ", ")
        for (j = 1; j <= n; j++) {
            put(".TP\n" fmt(names[j]))
            if (!(names[j] in constant_said)) refuse(name ": " names[j] " is no result")
            lines_of(constant_said[names[j]])
        }
    }
}

# A paragraph of a header's head that begins with such a word.
function paragraph(header, word, n, i, blocks) {
    n = split_blocks(head_of[header], blocks)
    for (i = 1; i <= n; i++) if (index(blocks[i], word ". ") == 1) return blocks[i]
    return ""
}
function split_blocks(said, blocks, n, at) {
    n = 0
    while ((at = index(said, "\n\n")) > 0) { blocks[++n] = substr(said, 1, at - 1); said = substr(said, at + 2) }
    if (said != "") blocks[++n] = said
    return n
}
# The first piece of code in a header's head.
function example_in(header, n, i, blocks) {
    n = split_blocks(head_of[header], blocks)
    for (i = 1; i <= n; i++) if (blocks[i] ~ /^    /) return blocks[i]
    return ""
}

function function_page(name, i, any, said) {
    open_page(name, summary(page_said[name]))
    synopsis(name)
    take_apart(page_said[name])
    put(".SH DESCRIPTION")
    flow(description)
    for (i = 1; i <= parameter_count; i++) {
        if (parameter[i] == "returns") continue
        if (!any++) put(".SH PARAMETERS")
        put(".TP\n" fmt(parameter[i]))
        lines_of(parameter_said[i])
    }
    results(name)
    if (notes[name] != "") { put(".SH NOTES"); flow(notes[name]) }
    said = paragraph(page_header[name], "Threads")
    if (said == "") said = paragraph(headers[1], "Threads")
    if ("tl_client" in types || "tl_lock" in types || "tl_dlu" in types) {
        put(".SH THREADS")
        sub(/^Threads\. /, "", said)
        split("", aside)
        for (i in seen) aside[i] = 1
        flow(said)
        split("", seen) # it names what has nothing to do with this one
        for (i in aside) seen[i] = 1
    }
    said = example_in(page_header[name])
    if (index(said, name "(")) { put(".SH EXAMPLE"); flow(said) }
    programs(name)
    for (i in types) if (i in page_kind) seen[i] = 1
    see_also(name)
}

function programs(name, i, list) {
    for (i = 1; i <= examples; i++)
        if (example_text[example_files[i]] ~ ("[^a-z_]" name "[^a-z_]"))
            list = list (list == "" ? "" : ", ") "\\fI" example_files[i] "\\fR"
    if (list != "") put(".SH FILES\nPrograms that use it, in \\fIshare/doc/tidelock/examples\\fR: " list ".")
}

function see_also(name, i, list) {
    delete seen[name]
    for (i = 1; i <= page_count; i++)
        if (pages[i] in seen) list = list (list == "" ? "" : ",\n") "\\fB" pages[i] "\\fR(3)"
    list = list (list == "" ? "" : ",\n") "\\fBtidelock\\fR(3)"
    if (page_header[name] != headers[1]) list = list ",\n\\fB" title_of(page_header[name]) "\\fR(3)"
    put(".SH SEE ALSO\n" list)
    close(out)
}

function type_page(name, i, said) {
    said = page_said[name]
    open_page(name, summary(said))
    split("", params)
    put(".SH SYNOPSIS\n.nf\n.B #include <tidelock/" page_header[name] ">\n.PP")
    put("\\fBtypedef " page_kind[name] " { ... } " name ";\\fR")
    if (name in maker) put(".PP\n\\fB" name " \\fIoptions\\fB = " maker[name] "(.\\fImember\\fB = ..., ...);\\fR")
    put(".fi")
    put(".SH DESCRIPTION")
    flow(page_said[name])
    put(page_kind[name] == "enum" ? ".SH CONSTANTS" : ".SH MEMBERS")
    for (i = 1; i <= members[name]; i++) {
        if (member[name, i] == "") { put(".PP"); flow(member_said[name, i]); continue }
        put(".TP\n\\fB" literal(member[name, i]) "\\fR")
        if (member_said[name, i] != "") lines_of(member_said[name, i])
        else put("\\&")
    }
    if (notes[name] != "") { put(".SH NOTES"); flow(notes[name]) }
    programs(name)
    users(name)
    see_also(name)
}
function users(name, i) {
    for (i = 1; i <= page_count; i++)
        if (prototype[pages[i]] ~ ("(^|[^a-z_])" name "([^a-z_]|$)")) seen[pages[i]] = 1
    for (i = 1; i <= page_count; i++) if (has_member_of(pages[i], name)) seen[pages[i]] = 1
}
function has_member_of(page, name, i) {
    for (i = 1; i <= members[page]; i++) if (member[page, i] ~ ("(^|[^a-z_])" name "([^a-z_]|$)")) return 1
    return 0
}
function callback_page(name, i) {
    open_page(name, summary(page_said[name]))
    synopsis(name)
    take_apart(page_said[name])
    put(".SH DESCRIPTION")
    flow(description)
    for (i = 1; i <= parameter_count; i++) {
        if (i == 1) put(".SH PARAMETERS")
        put(".TP\n" fmt(parameter[i]))
        lines_of(parameter_said[i])
    }
    if (notes[name] != "") { put(".SH NOTES"); flow(notes[name]) }
    for (i in types) if (i in page_kind) seen[i] = 1
    users(name)
    see_also(name)
}

# tidelock.h is tidelock(3), inspect.h tidelock-inspect(3); one of another stem keeps it.
function title_of(header, s) {
    s = header
    if (s ~ /\.hpp$/) return s
    sub(/\.h$/, "", s)
    if (header == headers[1] || s ~ /_/) return s
    return "tidelock-" s
}

function overview(header, n, i, j, blocks, said, list, any, compiler) {
    said = head_of[header]
    split("", params)
    n = split_blocks(said, blocks)
    list = blocks[1]
    sub(/^tidelock: /, "", list)
    this = title_of(header)
    page_header[this] = headers[1]
    open_page(this, summary(list))
    compiler = header ~ /\.hpp$/ ? "c++ \\-std=c++17" : "cc"
    put(".SH SYNOPSIS\n.nf\n.B #include <tidelock/" header ">\n.PP\n.B " compiler " ... $(pkg\\-config \\-\\-cflags \\-\\-libs tidelock)\n.PP\n.B find_package(tidelock CONFIG)\n.B target_link_libraries(PROGRAM tidelock::tidelock)\n.PP\nStatically:\n.B " compiler " \\-static ... $(pkg\\-config \\-\\-static \\-\\-cflags \\-\\-libs tidelock)\n.B target_link_libraries(PROGRAM tidelock::static)\n.fi")
    put(".SH DESCRIPTION")
    for (i = 1; i <= n; i++) {
        if (match(blocks[i], /^[A-Z][a-z]+( [a-z]+)?( [a-z]+)?( [a-z]+)?\. /) && blocks[i] !~ /^ /) {
            list = substr(blocks[i], 1, RLENGTH - 2)
            put(".SS " list)
            flow(substr(blocks[i], length(list) + 3))
            continue
        }
        if (i > 1 && blocks[i] !~ /^  /) put(".PP")
        else if (i > 1 && blocks[i] ~ /^    /) put(".sp")
        flow(blocks[i])
    }
    any = 0
    for (i = 1; i <= defines; i++) {
        if (define_in[define_of[i]] != header) continue
        if (!any++) put(".SH CONSTANTS")
        put(".TP\n\\fB" literal(define_of[i]) "\\fR = " literal(define_value[define_of[i]]))
        if (define_said[define_of[i]] != "") lines_of(define_said[define_of[i]])
        else put("\\&")
    }
    for (j = 1; j <= 2; j++) {
        any = 0
        for (i = 1; i <= page_count; i++) {
            if (page_header[pages[i]] != header || (page_kind[pages[i]] == "function") != (j == 1)) continue
            if (!any++) put(j == 1 ? ".SH FUNCTIONS" : ".SH TYPES")
            put(".TP\n\\fB" pages[i] "\\fR(3)\n" about(pages[i]))
        }
    }
    list = ""
    for (i = 1; i <= header_count; i++)
        if (headers[i] != header) list = list "\\fB" title_of(headers[i]) "\\fR(3),\n"
    put(".SH SEE ALSO\n" list "\\fBtidelock\\fR(1)")
    close(out)
}
function about(name) { return summary(page_said[name]) }

function write_all(i, name) {
    for (i = 1; i <= page_count; i++) {
        name = pages[i]
        if (page_kind[name] == "function") function_page(name)
        else if (page_kind[name] == "callback") callback_page(name)
        else type_page(name)
    }
    for (i = 1; i <= header_count; i++) overview(headers[i])
}
