#include <string>

#include "seeds/seeds.h"

namespace shardkit::fuzz {

void AddViewSeeds(SeedWriter& seeds) {
  int number = 0;
  for (const char* const line : {"/",
                                 "/page/main.js",
                                 "/api/datasets",
                                 "/api/0/state",
                                 "/api/0/overview",
                                 "/api/0/statistics",
                                 "/api/0/samples first=0 count=2 captions=v captions=i image=v",
                                 "/api/0/thumbnail/0 column=v size=64 masks=m",
                                 "/api/0/sample/0",
                                 "/api/0/sample/1",
                                 "/api/0/value/0 column=v",
                                 "/api/0/value/0 column=m download=1",
                                 "/api/0/array/0 column=a",
                                 "/api/0/masks/0 column=m",
                                 "/api/0/find where=i>3 from=0",
                                 "/api/0/find key=k",
                                 "/api/0/random seed=1 count=2",
                                 "/api/0/order seed=1 epoch=2 world_size=3 rank=1 batch_size=4 step=0 order=shuffled",
                                 "/api/0/shuffle seed=1 epoch=0 order=sequential",
                                 "/api/1/state",
                                 "/api/0/nothing/1",
                                 "shardkit-view-80=0123456789abcdef",
                                 "127.0.0.1:80",
                                 "0123456789abcdef",
                                 "<a href=\"x\">'&"}) {
    for (const std::string_view value : {std::string_view("text"), std::string_view("<svg onload=alert(1)>"),
                                         std::string_view("\xff\xd8\xff\xe0\x00\x10JFIF", 10),
                                         std::string_view("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01", 24)}) {
      seeds.Add("view", std::to_string(number++), std::string(line) + "\n" + std::string(value));
    }
  }
}

}  // namespace shardkit::fuzz
