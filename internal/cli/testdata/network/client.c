/* Fetches by HTTP: HOST PORT PATH. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
	if (argc != 4)
		return 2;
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all;
	int failed = getaddrinfo(argv[1], argv[2], &hints, &all);
	if (failed) {
		fprintf(stderr, "%s: %s\n", argv[1], gai_strerror(failed));
		return 1;
	}
	int fd = -1;
	for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
			perror(argv[1]);
			close(fd);
			fd = -1;
		}
	}
	if (fd < 0)
		return 1;
	dprintf(fd, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", argv[3], argv[1]);
	static char answer[4096];
	size_t n = 0;
	for (ssize_t got; n < sizeof answer - 1 && (got = read(fd, answer + n, sizeof answer - 1 - n)) > 0;)
		n += got;
	char *body = strstr(answer, "\r\n\r\n");
	if (!body)
		return 1;
	printf("c %s", body + 4);
	return 0;
}
