// Files of formats of images. Where the format is simple they are made here.
#include <zlib.h>

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "seeds/seeds.h"
#include "support/require.h"

namespace shardkit::fuzz {
namespace {

template <typename T>
std::string Bytes(T number) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

template <typename T>
void Append(std::string& bytes, T number) {
  bytes += Bytes(number);
}

// Region and channels.
const std::string kPart{5, 0, 4, 0, 7, 0, 5, 0, 1};

struct Encoded {
  const char* name;
  const char* hex;
};

// 21 x 13 pixels each, encoded by libavif.
void AddAvifs(SeedWriter& seeds) {
  constexpr Encoded kSeeds[] = {
      {"lossy",
       "00000020667479706176696600000000617669666d6966316d6961664d413142000000f26d65746100000000000000286864"
       "6c720000000000000000706963740000000000000000000000006c696261766966000000000e7069746d0000000000010000"
       "001e696c6f6300000000440000010001000000010000011a000000490000002869696e660000000000010000001a696e6665"
       "020000000001000061763031436f6c6f72000000006a697072700000004b6970636f00000014697370650000000000000015"
       "0000000d000000107069786900000000030808080000000c6176314381000c0000000013636f6c726e636c78000200020002"
       "800000001769706d61000000000000000100010401028304000000516d64617412000a061810e98c0840323d1c8029a69a44"
       "00ee933519ffa3014a628fe5d31ee19fee59310bccf4ac020505054d517518f729bf26f3cad11df248db14826b3fc42cfa71"
       "9eedb9fdc0"},
      {"alpha",
       "00000020667479706176696600000000617669666d6966316d6961664d4131410000018d6d65746100000000000000286864"
       "6c720000000000000000706963740000000000000000000000006c696261766966000000000e7069746d0000000000010000"
       "002c696c6f630000000044000002000100000001000001e500000060000200000001000001b5000000300000004269696e66"
       "0000000000020000001a696e6665020000000001000061763031436f6c6f72000000001a696e666502000000000200006176"
       "3031416c706861000000001a69726566000000000000000e6175786c000200010001000000c3697072700000009d6970636f"
       "000000146973706500000000000000150000000d000000107069786900000000030808080000000c61763143812000000000"
       "0013636f6c726e636c78000200020002800000000e706978690000000001080000000c6176314381001c0000000038617578"
       "430000000075726e3a6d7065673a6d706567423a636963703a73797374656d733a617578696c696172793a616c7068610000"
       "00001e69706d6100000000000000020001040102830400020401058607000000986d64617412000a051810e98c2a32251c80"
       "a69100ed50e2a4afabf74bca8831a17cd41593f1201977f55e2c26e677b843cef2f46e12000a053810e98c1232551c8029a6"
       "9a4400ee933519ffa3014a630aaafee362cfd42fee8cb0b328680d3c9b1c0e85d4b6f6abb4b5a8c6e65f06cb54c53c742086"
       "58199a6f371bc5a305ea63d0a097eb7f0db7169684e8122a2610314e593603"},
      {"deep",
       "0000001c667479706176696600000000617669666d6966316d696166000001046d657461000000000000002868646c720000"
       "000000000000706963740000000000000000000000006c696261766966000000000e7069746d0000000000010000001e696c"
       "6f63000000004400000100010000000100000128000000390000002869696e660000000000010000001a696e666502000000"
       "0001000061763031436f6c6f72000000007c697072700000005b6970636f000000146973706500000000000000150000000d"
       "0000000e7069786900000000010a0000000c6176314381005c0000000013636f6c726e636c78000200020002800000000969"
       "726f740100000009696d6972000000001969706d610000000000000001000106010283048586000000416d64617412000a05"
       "1810e98c6a322e1c80cb2100ed50aa0c1c4317876e59fccc534985a759eae7e377233c1d85b2aaf243147391dd1d12654c15"
       "b859bd"},
  };
  for (const Encoded& seed : kSeeds) seeds.Add("avif", seed.name, kPart + absl::HexStringToBytes(seed.hex));
}

// 21 x 13 pixels each, encoded by libwebp.
void AddWebps(SeedWriter& seeds) {
  constexpr Encoded kSeeds[] = {
      {"lossless",
       "5249464636000000574542505650384c2a0000002f1400030009802006fc0f9b88e87f6a31fef58ffe4702226d9b1ab87fcb"
       "63a79330013101703a99de04"},
      {"lossy",
       "52494646600000005745425056503820540000009003009d012a15000d003eed68ad4da9a6a4a2300801301d896c009d3280"
       "034dc62f92a80000fef10db7b137388a9c44c6c55366c84dd9bb4cd7f01f5f4f100fe74c61c98b7072bad22153fef7f51955"
       "600d8000"},
      {"alpha",
       "524946468c00000057454250565038580a000000100000001400000c0000414c504814000000050f300c11114248404cf1ff"
       "24dd8288fe87f1005650382052000000d003009d012a15000d003f117cb451ac282522b008018022096c009d3284700029ca"
       "2aabca5ad000feebee3167d0ed69677f9a8aa6ca4c4c509d6efe083198d8b0bb5f1dc43138a5aff535bd210716800000"},
      {"animated",
       "52494646f400000057454250565038580a000000020000001400000c0000414e494d06000000000000000000414e4d466200"
       "00000000000000001400000c000000000002565038204a000000d002009d012a15000d002ef99cce67252f2f2f0f00f84b60"
       "04e9940057770000fee719e41fd268fea27ffa6d5d4cbb90e134f0e8fab37c3b92002d20afdb4c0255bd1aa4fb624b272000"
       "414e4d465e0000000000000000001400000c00000000000056503820460000009402009d012a15000d002ef99cce6700000f"
       "84b6004e99423800493f1000fedeabb29fbe86fe037ffd36aea65dc8709a7874a8963e1e4d1a4624bca5a3556fd817d3e5ee"
       "c000"},
      {"turned",
       "524946468400000057454250565038580a000000080000001400000c000056503820440000001003009d012a15000d003fcd"
       "dce7663fb7b127300803f039896c00ac3280056c1000fed2664eb504f8eff4e6f01f98e53042b9c4db59c8cd5467e8aac9e3"
       "3e3723c00000455849461a0000004d4d002a00000008000101120003000000010006000000000000"},
  };
  for (const Encoded& seed : kSeeds) seeds.Add("webp", seed.name, kPart + absl::HexStringToBytes(seed.hex));
}

// Codes of nine bits, and a new table before they would grow.
std::string GifPixels(size_t count) {
  constexpr uint32_t kClear = 256, kEnd = 257, kBetween = 200;
  std::vector<uint32_t> codes;
  for (size_t i = 0; i < count; ++i) {
    if (i % kBetween == 0) codes.push_back(kClear);
    codes.push_back(static_cast<uint32_t>(i * 7 % 256));
  }
  codes.push_back(kEnd);
  std::string packed;
  uint32_t held = 0, bits = 0;
  for (const uint32_t code : codes) {
    held |= code << bits;
    for (bits += 9; bits >= 8; bits -= 8, held >>= 8) packed += static_cast<char>(held);
  }
  packed += static_cast<char>(held);
  std::string blocks(1, 8);  // bits of an index
  for (size_t at = 0; at < packed.size(); at += 255) {
    const std::string block = packed.substr(at, 255);
    blocks += static_cast<char>(block.size()) + block;
  }
  return blocks + '\0';
}

void AddGifs(SeedWriter& seeds) {
  for (const bool interlaced : {false, true}) {
    for (const bool own_colors : {false, true}) {
      for (const char across : {'\x15', '\x09'}) {
        std::string file = "GIF89a" + std::string{21, 0, 13, 0, static_cast<char>(0xf7), 0, 0} + SeedBytes(1, 768);
        file += std::string{'!', static_cast<char>(0xf9), 4, 1, 0, 0, 3, 0} + std::string("!\xfe\3one\0", 7);
        file += std::string{',',    2, 0,  1, 0,
                            across, 0, 11, 0, static_cast<char>((interlaced ? 0x40 : 0) | (own_colors ? 0x87 : 0))};
        if (own_colors) file += SeedBytes(2, 768);
        file += GifPixels(size_t{11} * static_cast<size_t>(across)) + ';';
        seeds.Add("gif", std::to_string(across) + (interlaced ? "-interlaced" : "") + (own_colors ? "-own" : ""),
                  kPart + file);
      }
    }
  }
}

void AddBmps(SeedWriter& seeds) {
  struct Kind {
    uint16_t bits;
    uint32_t compression;
    int32_t height;
  };
  for (const Kind kind : {Kind{1, 0, 13}, Kind{4, 0, -13}, Kind{8, 0, 13}, Kind{16, 0, 13}, Kind{16, 3, 13},
                          Kind{24, 0, -13}, Kind{32, 3, 13}, Kind{8, 1, 13}, Kind{4, 2, 13}}) {
    std::string header, colors, pixels;
    for (const uint32_t number : {40u, 21u, static_cast<uint32_t>(kind.height), 1u | uint32_t{kind.bits} << 16,
                                  kind.compression, 0u, 0u, 0u, 0u, 0u}) {
      Append(header, number);
    }
    if (kind.bits <= 8) colors = SeedBytes(3, size_t{4} << kind.bits);
    if (kind.compression == 3) {
      for (const uint32_t mask : {0xf800u, 0x7e0u, 0x1fu}) Append(colors, mask);
    }
    if (kind.compression == 1 || kind.compression == 2) {
      pixels =
          std::string("\x08\x17\x00\x05\x12\x34\x56\x78\x9a\x00\x00\x00\x03\x44\x00\x02\x02\x01\x04\x05\x00\x01", 22);
    } else {
      pixels = SeedBytes(4, (size_t{21} * kind.bits + 31) / 32 * 4 * 13);
    }
    std::string file = "BM";
    for (const size_t number : {size_t{0}, size_t{0}, 14 + header.size() + colors.size()}) {
      Append(file, static_cast<uint32_t>(number));
    }
    seeds.Add("bmp",
              std::to_string(kind.bits) + "-" + std::to_string(kind.compression) + (kind.height < 0 ? "-down" : ""),
              kPart + file + header + colors + pixels);
  }
}

// A directory with tags of one number each, and what does not fit into it behind.
class TiffMaker {
 public:
  void Add(uint16_t tag, uint16_t type, std::string values) {
    const uint32_t size = type == 3 ? 2 : 4;
    Append(entries_, tag);
    Append(entries_, type);
    Append(entries_, static_cast<uint32_t>(values.size() / size));
    if (values.size() <= 4) {
      values.resize(4);
      entries_ += values;
    } else {
      Append(entries_, static_cast<uint32_t>(8 + behind_.size()));
      behind_ += values;
    }
    ++count_;
  }
  void Short(uint16_t tag, uint16_t value) { Add(tag, 3, Bytes(value)); }
  void Long(uint16_t tag, uint32_t value) { Add(tag, 4, Bytes(value)); }
  // Where it lies.
  uint32_t Data(const std::string& data) {
    const auto at = static_cast<uint32_t>(8 + behind_.size());
    behind_ += data;
    if (behind_.size() % 2 != 0) behind_ += '\0';
    return at;
  }
  std::string Finish() const {
    std::string file("II\x2a\0", 4);
    Append(file, static_cast<uint32_t>(8 + behind_.size()));
    return file + behind_ + Bytes(count_) + entries_ + Bytes(uint32_t{0});
  }

 private:
  std::string entries_, behind_;
  uint16_t count_ = 0;
};

void AddTiffs(SeedWriter& seeds) {
  struct Kind {
    const char* name;
    uint16_t bits, samples, photometric, compression;
    bool separate, tiled;
  };
  constexpr uint16_t kNone = 1, kDeflate = 8;
  for (const Kind& kind :
       {Kind{"rgb", 8, 3, 2, kNone, false, false}, Kind{"rgba-tiled", 8, 4, 2, kDeflate, false, true},
        Kind{"deep", 16, 1, 1, kDeflate, false, false}, Kind{"planes", 8, 3, 2, kNone, true, false},
        Kind{"palette", 4, 1, 3, kNone, false, false}, Kind{"white", 1, 1, 0, kNone, false, true},
        Kind{"ink", 8, 4, 5, kNone, false, false}, Kind{"luma", 8, 3, 6, kNone, false, false}}) {
    TiffMaker tiff;
    const uint32_t across = kind.tiled ? 16 : 21, down = kind.tiled ? 16 : 5;
    const uint32_t parts = (kind.tiled ? 2u : 3u) * (kind.separate ? 3u : 1u);
    const uint32_t row_bytes = (across * kind.bits * (kind.separate ? 1u : kind.samples) + 7) / 8;
    std::string offsets, counts, bits;
    for (uint32_t part = 0; part < parts; ++part) {
      const uint32_t rows = kind.tiled || part % 3 < 2 ? down : 3;
      std::string data = SeedBytes(part, size_t{row_bytes} * rows);
      if (kind.compression == kDeflate) {
        std::string packed(compressBound(data.size()), '\0');
        uLongf length = packed.size();
        Require(compress(reinterpret_cast<Bytef*>(packed.data()), &length, reinterpret_cast<const Bytef*>(data.data()),
                         data.size()) == Z_OK,
                "compressing a seed");
        data = packed.substr(0, length);
      }
      Append(counts, static_cast<uint32_t>(data.size()));
      Append(offsets, tiff.Data(data));
    }
    for (uint16_t sample = 0; sample < kind.samples; ++sample) Append(bits, kind.bits);
    tiff.Long(256, 21);
    tiff.Long(257, 13);
    tiff.Add(258, 3, bits);
    tiff.Short(259, kind.compression);
    tiff.Short(262, kind.photometric);
    if (!kind.tiled) tiff.Add(273, 4, offsets);
    tiff.Short(274, 6);
    tiff.Short(277, kind.samples);
    if (!kind.tiled) tiff.Long(278, down);
    if (!kind.tiled) tiff.Add(279, 4, counts);
    tiff.Short(284, kind.separate ? 2 : 1);
    if (kind.photometric == 3) tiff.Add(320, 3, SeedBytes(9, size_t{6} << kind.bits));
    if (kind.tiled) {
      tiff.Long(322, across);
      tiff.Long(323, down);
      tiff.Add(324, 4, offsets);
      tiff.Add(325, 4, counts);
    }
    if (kind.samples > 3 && kind.photometric == 2) tiff.Short(338, 2);
    seeds.Add("tiff", kind.name, kPart + tiff.Finish());
  }
}

}  // namespace

void AddImageSeeds(SeedWriter& seeds) {
  AddAvifs(seeds);
  AddWebps(seeds);
  AddGifs(seeds);
  AddBmps(seeds);
  AddTiffs(seeds);
}

}  // namespace shardkit::fuzz
