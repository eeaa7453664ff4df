/* A client of `benches/serving.py`: keeps requests under way by HTTP, one on each of its connections, and takes some
 * ten microseconds for each. It sends the same bytes again and looks at the status of the answers alone.
 *
 * usage: serving_client PORT REQUEST UNDER_WAY SECONDS     (REQUEST: a file with a whole request, headers and body)
 *
 * Prints the number of requests, the seconds that they took, and the median and 99th percentile of their latency. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256, HEAD = 4096 };

/* A connection and the request that is under way on it. */
struct connection {
    double sent;
    /* Bytes of the request that are written, bytes of the answer that came, and its length, 0 until its head is there. */
    size_t written, got, length;
    char head[HEAD + 1];
};

static void fail(const char *what) {
    fprintf(stderr, "serving_client: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) fail(path);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size);
    if (!bytes || fread(bytes, 1, *size, file) != *size) fail(path);
    fclose(file);
    return bytes;
}

static int connect_to(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* Reads what has come. Returns true when the answer is complete. */
static int receive(int fd, struct connection *at) {
    static char rest[1 << 20];
    int in_head = at->got < HEAD;
    char *into = in_head ? at->head + at->got : rest;
    ssize_t count = recv(fd, into, in_head ? HEAD - at->got : sizeof rest, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (count <= 0) fail("the server closed a connection");
    at->got += (size_t)count;
    if (at->length == 0) {
        at->head[at->got < HEAD ? at->got : HEAD] = 0;
        char *end = strstr(at->head, "\r\n\r\n");
        if (!end) return 0;
        char *length = strcasestr(at->head, "\r\nContent-Length:");
        if (strncmp(at->head, "HTTP/1.1 200", 12) || !length || length > end) {
            fprintf(stderr, "serving_client: %s\n", at->head);
            exit(1);
        }
        at->length = (size_t)(end + 4 - at->head) + strtoul(length + 17, NULL, 10);
    }
    return at->got >= at->length;
}

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "usage: serving_client PORT REQUEST UNDER_WAY SECONDS\n");
        return 2;
    }
    size_t size, done = 0, room = 1 << 16;
    char *request = read_file(words[2], &size);
    int under_way = atoi(words[3]), open = 0;
    if (under_way < 1 || under_way > MOST) return 2;
    static struct connection all[MOST];
    static struct pollfd polled[MOST];
    double *times = malloc(room * sizeof *times), start = now(), end = start + atof(words[4]);
    for (; open < under_way; open++) {
        polled[open] = (struct pollfd){.fd = connect_to(atoi(words[1])), .events = POLLOUT};
        all[open].sent = now();
    }
    while (open > 0) {
        if (poll(polled, (nfds_t)under_way, 60000) <= 0) fail("no answer within a minute");
        for (int k = 0; k < under_way; k++) {
            struct connection *at = &all[k];
            if (polled[k].revents & POLLOUT) {
                ssize_t sent = send(polled[k].fd, request + at->written, size - at->written, MSG_DONTWAIT | MSG_NOSIGNAL);
                if (sent < 0 && errno != EAGAIN && errno != EINTR) fail("send");
                at->written += sent > 0 ? (size_t)sent : 0;
                if (at->written == size) polled[k].events = POLLIN;
            } else if (polled[k].revents && receive(polled[k].fd, at)) {
                if (done == room && !(times = realloc(times, (room *= 2) * sizeof *times))) fail("memory");
                times[done++] = now() - at->sent;
                if (now() < end) {
                    *at = (struct connection){.sent = now()};
                    polled[k].events = POLLOUT;
                } else {
                    close(polled[k].fd);
                    polled[k].fd = -1;
                    open--;
                }
            }
        }
    }
    double elapsed = now() - start;
    qsort(times, done, sizeof *times, ascending);
    printf("%zu %f %f %f\n", done, elapsed, times[done / 2], times[done * 99 / 100]);
    return 0;
}
