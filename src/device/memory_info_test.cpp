// The memory limit from made-up /proc and /sys trees.

#include "device/memory_info.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/testing/scratch_folder.h"

namespace millrace::device {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

/// 8 GiB of memory, 6 GiB of them free; limits as a test writes them.
class Limits : public ::testing::Test {
 protected:
  Limits() {
    write("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:          100000 kB\nMemAvailable:    6291456 kB\n");
  }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_.path() / path.substr(1)).parent_path());
    root_.file(path.substr(1), text);
  }
  MemoryInfo read() const { return machine_memory(root_.path().string()); }

  testing::ScratchFolder root_;
};

TEST_F(Limits, without_a_cgroup_the_machine_is_the_limit) {
  const MemoryInfo info = read();
  EXPECT_EQ(info.total_bytes, 8192 * kMiB);
  EXPECT_EQ(info.free_bytes, 6144 * kMiB);
  EXPECT_FALSE(info.cgroup_limit);
}

TEST_F(Limits, every_level_of_a_v2_hierarchy_counts) {
  write("/proc/self/cgroup", "0::/outer/inner/leaf\n");
  write("/sys/fs/cgroup/outer/memory.max", "1073741824\n");
  write("/sys/fs/cgroup/outer/memory.current", "943718400\n");  // 124 MiB are left
  write("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write("/sys/fs/cgroup/outer/inner/leaf/memory.max", "2147483648\n");
  write("/sys/fs/cgroup/outer/inner/leaf/memory.current", "1048576\n");
  const MemoryInfo info = read();
  EXPECT_EQ(info.total_bytes, 1024 * kMiB);
  EXPECT_EQ(info.free_bytes, 124 * kMiB);
  EXPECT_TRUE(info.cgroup_limit);
}

TEST_F(Limits, pages_of_files_in_a_group_are_free) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", "1073741824\n");
  write("/sys/fs/cgroup/memory.current", "943718400\n");
  write("/sys/fs/cgroup/memory.stat", "anon 104857600\nfile 838860800\ninactive_file 629145600\nactive_file 209715200\n");
  EXPECT_EQ(read().free_bytes, 924 * kMiB);
}

TEST_F(Limits, a_v1_group_and_those_above_it_count) {
  write("/proc/self/cgroup", "5:cpu,memory:/a/b\n0::/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "536870912\n");
  write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "268435456\n");
  write("/sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 67108864\ntotal_active_file 0\n");
  const MemoryInfo info = read();
  EXPECT_EQ(info.total_bytes, 512 * kMiB);
  EXPECT_EQ(info.free_bytes, 320 * kMiB);
}

TEST_F(Limits, a_group_that_is_not_below_the_mount_is_looked_for_above) {
  write("/proc/self/cgroup", "4:memory:/docker/0123\n0::/../elsewhere\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n");
  write("/sys/fs/elsewhere/memory.max", "1\n");
  EXPECT_EQ(read().total_bytes, 256 * kMiB);
  EXPECT_EQ(read().free_bytes, 256 * kMiB);
}

TEST_F(Limits, a_group_that_uses_more_than_its_limit_has_nothing_free) {
  write("/proc/self/cgroup", "0::/x\n");
  write("/sys/fs/cgroup/x/memory.max", "1000\n");
  write("/sys/fs/cgroup/x/memory.current", "2000\n");
  EXPECT_EQ(read().free_bytes, 0);
}

TEST(MachineMemory, this_machine_has_some) {
  const MemoryInfo info = machine_memory();
  EXPECT_GT(info.total_bytes, 0);
  EXPECT_GT(info.free_bytes, 0);
  EXPECT_LE(info.free_bytes, info.total_bytes);
}

}  // namespace
}  // namespace millrace::device
