/* An adapter and a store in one: cc -O2 -o c_adapter c_adapter.c
 *
 * The store is one append-only log, `{prefix}log`, locked with flock by every call and fsynced
 * before the answer. What a crash left of a line is cut off by the next call, or skipped for its
 * CRC. It never shrinks.
 *
 * Values are kept as the text that came in: the suite writes the same value in the same way every
 * time, in ASCII without raw control characters, so texts are compared as bytes and a log line is
 * JSON texts with tabs between them, after their CRC:
 *     CRC A id task publish_at     CRC R id     CRC D id record     CRC X id id ...
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- text ------------------------------------------------------------------------------------ */

typedef struct { const char *at; size_t size; } Text;
typedef struct { char *at; size_t size, room; } Buffer;

static void *grow(void *old, size_t size) {
    void *new = realloc(old, size);
    if (!new) abort();
    return new;
}

static void put(Buffer *b, const char *at, size_t size) {
    size_t needed = b->size + size + 1;
    if (needed > b->room) b->at = grow(b->at, b->room = 2 * needed);
    memcpy(b->at + b->size, at, size);
    b->at[b->size += size] = 0;
}

static void put_text(Buffer *b, Text t) { put(b, t.at, t.size); }
static void put_word(Buffer *b, const char *word) { put(b, word, strlen(word)); }

static int same(Text a, Text b) { return a.size == b.size && !memcmp(a.at, b.at, a.size); }
static int is(Text a, const char *word) { return same(a, (Text){word, strlen(word)}); }

static Text copy(Text t) {
    char *new = grow(NULL, t.size + 1);
    memcpy(new, t.at, t.size);
    return (Text){new, t.size};
}

/* --- JSON: where a value ends, and the members of an object or array ------------------------- */

static const char *end_of(const char *at) {
    int depth = 0;
    do {
        if (*at == '"') {
            for (at++; *at != '"'; at++) at += *at == '\\';
            at++;
        } else if (*at == '{' || *at == '[') { depth++; at++; }
        else if (*at == '}' || *at == ']') { depth--; at++; }
        else if (depth) at++;
        else while (*at && !strchr(",]} \n", *at)) at++;
    } while (depth);
    return at;
}

/* The next item after `*at`, which stands behind the bracket or the last item; none: size 0. */
static Text item(const char **at) {
    *at += strspn(*at, ",: ");
    if (strchr("]}\n", **at)) return (Text){"", 0};
    Text found = {*at, 0};
    *at = end_of(*at);
    found.size = *at - found.at;
    return found;
}

static Text member(Text object, const char *name) {
    if (*object.at != '{') return (Text){"null", 4};
    for (const char *at = object.at + 1;;) {
        Text key = item(&at);
        if (!key.size) return (Text){"null", 4};
        Text value = item(&at);
        if (key.size == strlen(name) + 2 && !memcmp(key.at + 1, name, key.size - 2)) return value;
    }
}

static long number(Text t) { return strtol(t.at, NULL, 10); }

/* A JSON string as UTF-8; NULL when it holds a NUL, which no file name may. */
static char *plain(Text t) {
    char *out = grow(NULL, 2 * t.size), *to = out;
    for (const char *at = t.at + 1; at < t.at + t.size - 1; at++) {
        if (*at != '\\') { *to++ = *at; continue; }
        const char *found = strchr("b\bf\fn\nr\rt\t", *++at);
        if (*at != 'u') { *to++ = found ? found[1] : *at; continue; }
        unsigned code, low;
        sscanf(at + 1, "%4x", &code);
        at += 4;
        if (code >> 10 == 0xD800 >> 10 && sscanf(at + 1, "\\u%4x", &low) == 1) {
            code = 0x10000 + ((code & 0x3FF) << 10) + (low & 0x3FF);
            at += 6;
        }
        if (!code) { free(out); return NULL; }
        if (code < 0x80) *to++ = code;
        else if (code < 0x800) { *to++ = 0xC0 | code >> 6; *to++ = 0x80 | (code & 63); }
        else {
            if (code < 0x10000) *to++ = 0xE0 | code >> 12;
            else { *to++ = 0xF0 | code >> 18; *to++ = 0x80 | (code >> 12 & 63); }
            *to++ = 0x80 | (code >> 6 & 63);
            *to++ = 0x80 | (code & 63);
        }
    }
    *to = 0;
    return out;
}

/* --- the store ------------------------------------------------------------------------------- */

enum { SUM = 9 }; /* eight digits and a blank before every line */

typedef struct { Text id, body, publish_at; } Record;
typedef struct { Record *at; size_t size; } List;
typedef struct { long number; int fd; off_t seen; List tasks, dead; } Store;

static void add(List *list, Record r) {
    list->at = grow(list->at, (list->size + 1) * sizeof r);
    list->at[list->size++] = (Record){copy(r.id), copy(r.body), copy(r.publish_at)};
}

/* How many distinct ids that was is the caller's to count: 1 when any record went. */
static int drop(List *list, Text id) {
    size_t kept = 0;
    for (size_t n = 0; n < list->size; n++) {
        Record r = list->at[n];
        if (!same(r.id, id)) { list->at[kept++] = r; continue; }
        free((char *)r.id.at), free((char *)r.body.at), free((char *)r.publish_at.at);
    }
    int found = kept < list->size;
    list->size = kept;
    return found;
}

static int has(List *list, Text id) {
    for (size_t n = 0; n < list->size; n++) if (same(list->at[n].id, id)) return 1;
    return 0;
}

static Text field(char **at) {
    char *start = *at;
    *at += strcspn(*at, "\t\n");
    Text found = {start, *at - start};
    if (**at == '\t') ++*at;
    return found;
}

static void apply(Store *s, char *line) {
    char *at = line + 2;
    Text id = field(&at), body = field(&at), publish_at = field(&at);
    if (*line == 'A') { drop(&s->tasks, id); add(&s->tasks, (Record){id, body, publish_at}); }
    if (*line == 'R') drop(&s->tasks, id);
    if (*line == 'D') add(&s->dead, (Record){id, body, publish_at});
    if (*line == 'X') for (at = line + 2; *at != '\n';) drop(&s->dead, field(&at));
}

static unsigned crc32(const char *at, size_t size) {
    unsigned crc = ~0u;
    for (; size--; at++) {
        crc ^= (unsigned char)*at;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

/* Whether a line is whole: a crash of the host may leave any part of it as zeros or old bytes. */
static int sound(const char *line, size_t size) {
    char wanted[10];
    if (size < SUM) return 0;
    sprintf(wanted, "%08x ", crc32(line + SUM, size - SUM));
    return !memcmp(line, wanted, SUM);
}

/* Reads what was written since; 0 when a system call failed. */
static int catch_up(Store *s) {
    struct stat status;
    if (fstat(s->fd, &status)) return 0;
    size_t size = status.st_size - s->seen, have = 0;
    if (!size) return 1;
    char *bytes = grow(NULL, size + 1);
    while (have < size) {
        ssize_t got = pread(s->fd, bytes + have, size - have, s->seen + have);
        if (got <= 0) { free(bytes); return 0; }
        have += got;
    }
    char *last = memrchr(bytes, '\n', size);
    size_t whole = last ? last + 1 - bytes : 0; /* somebody was killed in the middle of the rest */
    int well = whole == size || !ftruncate(s->fd, s->seen + whole);
    for (char *line = bytes, *end; line < bytes + whole; line = end + 1) {
        end = memchr(line, '\n', bytes + whole - line);
        if (sound(line, end - line)) apply(s, line + SUM);
    }
    s->seen += whole;
    free(bytes);
    return well;
}

static int append(Store *s, Buffer *change) {
    Buffer line = {0};
    char sum[10];
    sprintf(sum, "%08x ", crc32(change->at, change->size));
    put(&line, sum, SUM), put(&line, change->at, change->size), put(&line, "\n", 1);
    size_t at = 0;
    for (ssize_t now; at < line.size; at += now)
        if ((now = write(s->fd, line.at + at, line.size - at)) < 0) break;
    int well = at == line.size && !fsync(s->fd);
    if (well) {
        s->seen += line.size;
        apply(s, line.at + SUM);
    }
    free(line.at);
    return well;
}

static int sync_directory(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int well = fd >= 0 && !fsync(fd);
    if (fd >= 0) close(fd);
    return well;
}

/* Every directory that is made, and durable in the one around it; the last one also where it was
 * there: who made it may have died, or failed, before that. */
static int make_directories(char *path) {
    for (char *at = path + 1, *above = path;; at++) {
        char was = *at;
        if (was && was != '/') continue;
        *at = 0;
        int made = mkdir(path, 0777) == 0, well = made || errno == EEXIST;
        if (well && (made || !was)) {
            char slash = above[1];
            above[1] = 0;
            well = sync_directory(above == path && *path != '/' ? "." : path);
            above[1] = slash;
        }
        *at = was;
        if (!well || !was) return well;
        above = at;
    }
}

/* --- the verbs: each writes its `ok` and gives 1, or sets errno or `refusal` and gives 0 ------ */

static Store stores[64]; /* number 0: free */
static const char *refusal, *refusal_code;

static int refuse(const char *code, const char *why) {
    refusal_code = code;
    refusal = why;
    return 0;
}

static Store *find(long wanted) {
    for (size_t n = 0; n < 64; n++) if (stores[n].number == wanted) return &stores[n];
    return NULL;
}

static int open_store(Store *s, long wanted, Text request) {
    char *path = plain(member(request, "path"));
    char *prefix = plain(member(member(request, "options"), "prefix"));
    if (!s) return refuse("bad_option", "64 stores are open");
    if (!path || !prefix || strchr(prefix, '/'))
        return refuse("bad_option", "a prefix is the start of a file name");
    char *name;
    if (!make_directories(path) || asprintf(&name, "%s/%slog", path, prefix) < 0) return 0;
    int fd = open(name, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || !sync_directory(path)) return 0;
    *s = (Store){.number = wanted, .fd = fd};
    free(name), free(path), free(prefix);
    return 1;
}

static void close_store(Store *s) {
    close(s->fd);
    while (s->tasks.size) drop(&s->tasks, s->tasks.at[0].id);
    while (s->dead.size) drop(&s->dead, s->dead.at[0].id);
    free(s->tasks.at), free(s->dead.at);
    *s = (Store){0};
}

static void list_pending(Store *s, Buffer *out) {
    put_word(out, "[");
    for (size_t n = 0; n < s->tasks.size; n++) {
        Record r = s->tasks.at[n];
        put_word(out, n ? ",{\"task_id\":" : "{\"task_id\":");
        put_text(out, r.id);
        put_word(out, ",\"task\":");
        put_text(out, r.body);
        put_word(out, ",\"publish_at\":");
        put_text(out, r.publish_at);
        put_word(out, "}");
    }
    put_word(out, "]");
}

static void list_dead(Store *s, Buffer *out, size_t offset, size_t limit) {
    put_word(out, "[");
    for (size_t n = offset; n < s->dead.size && n - offset < limit; n++) {
        if (n > offset) put_word(out, ",");
        put_text(out, s->dead.at[n].body);
    }
    put_word(out, "]");
}

static int add_task(Store *s, Text request, Buffer *line, Buffer *out) {
    Text id = member(request, "task_id");
    char fresh[27];
    if (is(id, "null")) {
        unsigned char random[12];
        if (getrandom(random, sizeof random, 0) != sizeof random) return 0;
        for (int n = 0; n < 12; n++) sprintf(fresh + 1 + 2 * n, "%02x", random[n]);
        fresh[0] = fresh[25] = '"';
        id = (Text){fresh, 26};
    }
    put_word(line, "A\t"), put_text(line, id), put_word(line, "\t");
    put_text(line, member(request, "task")), put_word(line, "\t");
    put_text(line, member(request, "publish_at"));
    put_text(out, id);
    return append(s, line);
}

static int add_dead_task(Store *s, Text request, Buffer *line, Buffer *out) {
    static const char *names[] = {"task_id", "task_class", "attempts", "context"};
    Text exception = member(request, "exception"), message = member(exception, "message");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char times[80];
    sprintf(times, "\"failed_at\":%lld.%09ld,\"enqueued_at\":null}",
            (long long)now.tv_sec, now.tv_nsec);
    put_word(line, "D\t"), put_text(line, member(request, "task_id")), put_word(line, "\t{");
    for (int n = 0; n < 4; n++) {
        put_word(line, "\""), put_word(line, names[n]), put_word(line, "\":");
        put_text(line, member(request, names[n])), put_word(line, ",");
    }
    put_word(line, "\"error_class\":"), put_text(line, member(exception, "class"));
    put_word(line, ",\"error_message\":");
    put_text(line, is(message, "null") ? (Text){"\"\"", 2} : message);
    put_word(line, ","), put_word(line, times);
    put_word(out, "null");
    return append(s, line);
}

static int remove_dead_tasks(Store *s, Text request, Buffer *line, Buffer *out) {
    int found = 0;
    put_word(line, "X");
    List seen = {0};
    Text ids = member(request, "task_ids"), id;
    for (const char *at = ids.at + 1; (id = item(&at)).size;) {
        if (has(&seen, id) || !has(&s->dead, id)) continue;
        add(&seen, (Record){id, id, id});
        put_word(line, "\t"), put_text(line, id);
        found++;
    }
    while (seen.size) drop(&seen, seen.at[0].id);
    free(seen.at);
    char count[20];
    sprintf(count, "%d", found);
    put_word(out, count);
    return !found || append(s, line);
}

/* A call on a store that is locked and up to date. */
static int call(Store *s, Text verb, Text request, Buffer *out) {
    Buffer line = {0};
    Text id = member(request, "task_id");
    int well = 1;
    if (is(verb, "\"add_task\"")) well = add_task(s, request, &line, out);
    else if (is(verb, "\"remove_task\"")) {
        put_word(&line, "R\t"), put_text(&line, id), put_word(out, "null");
        well = !has(&s->tasks, id) || append(s, &line);
    } else if (is(verb, "\"pending_tasks\"")) list_pending(s, out);
    else if (is(verb, "\"add_dead_task\"")) well = add_dead_task(s, request, &line, out);
    else if (is(verb, "\"list_dead_tasks\"")) {
        Text limit = member(request, "limit");
        size_t most = is(limit, "null") ? (size_t)-1 : (size_t)number(limit);
        list_dead(s, out, number(member(request, "offset")), most);
    } else if (is(verb, "\"find_dead_task\"")) {
        Text found = {"null", 4};
        for (size_t n = 0; n < s->dead.size; n++)
            if (same(s->dead.at[n].id, id)) found = s->dead.at[n].body;
        put_text(out, found);
    } else if (is(verb, "\"remove_dead_tasks\"")) well = remove_dead_tasks(s, request, &line, out);
    else if (is(verb, "\"sync\"")) put_word(out, "null"); /* every change is durable by now */
    else well = refuse("unsupported", "there is no such verb");
    free(line.at);
    return well;
}

static int crash_check(Text request, Buffer *out) {
    Store s = {0};
    if (!open_store(&s, 1, request)) return 0;
    int well = !flock(s.fd, LOCK_EX) && catch_up(&s);
    put_word(out, "{\"pending\":"), list_pending(&s, out);
    put_word(out, ",\"dead\":"), list_dead(&s, out, 0, -1), put_word(out, "}");
    close_store(&s);
    return well;
}

static int answer(Text request, Buffer *out) {
    Text verb = member(request, "do");
    if (is(verb, "\"hello\"")) {
        put_word(out, "{\"protocol\":1,\"name\":\"c log\",\"claims\":{\"pending_scope\":\"all\",");
        put_word(out, "\"survives_host_crash\":true,");
        put_word(out, "\"fsync_policy\":\"always\",");
        put_word(out, "\"uses_path\":true,\"reclaims_space\":false},");
        put_word(out, "\"capabilities\":");
        put_word(out, "[\"sync\",\"chdir\",\"times\",\"crash_check\"]}");
        return 1;
    }
    if (is(verb, "\"crash_check\"")) return crash_check(request, out);
    long wanted = number(member(request, "store"));
    if (is(verb, "\"open\"") || is(verb, "\"chdir\"")) {
        put_word(out, "null");
        return *(verb.at + 1) == 'o' ? open_store(find(0), wanted, request)
                                     : !chdir(plain(member(request, "path")));
    }
    Store *s = wanted > 0 ? find(wanted) : NULL;
    if (!s) return refuse(wanted > 0 ? "closed" : "unsupported", "no such store or verb");
    if (is(verb, "\"close\"")) {
        close_store(s);
        put_word(out, "null");
        return 1;
    }
    int well = !flock(s->fd, LOCK_EX) && catch_up(s) && call(s, verb, request, out);
    int why = errno;
    flock(s->fd, LOCK_UN);
    errno = why;
    return well;
}

/* --- lines ------------------------------------------------------------------------------------ */

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    for (ssize_t size; (size = getline(&line, &room, stdin)) > 0;) {
        Text request = {line, size};
        Buffer out = {0};
        long long begun = now();
        refusal = NULL;
        int well = answer(request, &out), why = errno;
        printf("{\"id\":%ld,", number(member(request, "id")));
        if (well) printf("\"ok\":%s", out.at);
        else if (refusal)
            printf("\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"definite\":true}",
                   refusal_code, refusal);
        else
            printf("\"error\":{\"code\":\"storage\",\"message\":\"%s\","
                   "\"definite\":false,\"errno\":%d}", strerror(why), why);
        printf(",\"t\":[%lld,%lld]}\n", begun, now());
        fflush(stdout);
        free(out.at);
    }
    return 0;
}
