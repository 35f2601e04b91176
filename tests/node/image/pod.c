/* What the pods of the real node run: it waits, or it makes a load that is known beforehand.
 * pod pause           waits for the end
 * pod burn MILLI MIB  uses MILLI thousandths of a processor and touches MIB mebibytes
 * SIGTERM ends either at once, with success. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS 20000000L

static void end(int signal) {
    (void)signal;
    _exit(0);
}

static long nanoseconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void burn(long milli) {
    /* By the processor's own clock, so that the load is right on a machine that is busy elsewhere too. */
    long start = nanoseconds(CLOCK_MONOTONIC), spent = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    for (;;) {
        long owed = (nanoseconds(CLOCK_MONOTONIC) - start) / 1000 * milli;
        while (nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - spent < owed) {
        }
        struct timespec rest = {0, PERIOD_NS};
        nanosleep(&rest, NULL);
    }
}

int main(int count, char **words) {
    signal(SIGTERM, end);
    signal(SIGINT, end);
    if (count == 4 && strcmp(words[1], "burn") == 0) {
        size_t bytes = (size_t)atol(words[3]) << 20;
        char *touched = malloc(bytes);
        if (touched == NULL) {
            return 1;
        }
        /* Nobody reads it: what is not volatile the compiler would leave out, and the memory with it. */
        for (volatile char *page = touched; page < touched + bytes; page += 1024) {
            *page = 1;
        }
        burn(atol(words[2]));
    }
    for (;;) {
        pause();
    }
}
