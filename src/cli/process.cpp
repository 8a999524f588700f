#include "cli/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "cli/interrupts.h"

extern char** environ;

namespace millrace::cli {

Result<int> run_program(const std::vector<std::string>& words, ChildOutput output, const std::string& error_log) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (output == ChildOutput::to_stderr) posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  else posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, error_log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t restored;  // SIGPIPE is ignored here and would be there
  sigemptyset(&restored), sigaddset(&restored, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &restored);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failure) return error(Code::not_found, "cannot run '{}': {}", words[0], std::strerror(failure));

  int status = 0;
  bool interrupted = false;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return error(Code::not_found, "waiting for '{}': {}", words[0], std::strerror(errno));
    if (interrupts() > 0 && !interrupted) interrupted = true, kill(child, SIGTERM);
  }
  if (interrupts() > 0) return error(Code::cancelled, "stopped");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace millrace::cli
