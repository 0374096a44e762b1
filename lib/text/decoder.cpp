#include "text/decoder.hpp"

#include "text/decoder_steps.hpp"
#include "text/pre_tokenizer.hpp"

namespace tpinfer {
namespace {

using Steps = std::vector<std::shared_ptr<const DecoderStep>>;

constexpr std::int64_t kMaxStrip = 1 << 20;

std::shared_ptr<const DecoderStep> read_strip(const Place& place) {
  const Place content = place.at("content");
  content.character();
  return std::make_shared<StripDecoder>(content.string(),
                                        static_cast<std::size_t>(place.at("start").integer(0, kMaxStrip)),
                                        static_cast<std::size_t>(place.at("stop").integer(0, kMaxStrip)));
}

std::shared_ptr<const DecoderStep> read_metaspace(const Place& place) {
  const Place replacement = place.at("replacement");
  replacement.character();
  return std::make_shared<MetaspaceDecoder>(replacement.string(), read_prepend_scheme(place) != PrependScheme::never);
}

void read_steps(const Place& place, Steps& steps) {
  const std::string& type = place.type();
  if (steps.size() == kMostSteps) place.fail("is one of more than {} steps", kMostSteps);
  if (type == "Sequence") {
    for (const Place& step : place.at("decoders").items()) read_steps(step, steps);
  } else if (type == "ByteLevel") {
    steps.push_back(std::make_shared<ByteLevelDecoder>());
  } else if (type == "Replace") {
    steps.push_back(
        std::make_shared<ReplaceDecoder>(read_pattern(place.at("pattern")), place.at("content").short_string()));
  } else if (type == "ByteFallback") {
    steps.push_back(std::make_shared<ByteFallbackDecoder>());
  } else if (type == "Fuse") {
    steps.push_back(std::make_shared<FuseDecoder>());
  } else if (type == "Strip") {
    steps.push_back(read_strip(place));
  } else if (type == "Metaspace") {
    steps.push_back(read_metaspace(place));
  } else if (type == "BPEDecoder") {
    steps.push_back(std::make_shared<BpeDecoder>(place.string_or("suffix", "</w>")));
  } else {
    place.unsupported_type("Sequence, ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, BPEDecoder");
  }
}

}  // namespace

Steps read_decoder(const std::optional<Place>& place) {
  Steps steps;
  if (place) {
    read_steps(*place, steps);
  } else {
    steps.push_back(std::make_shared<JoinDecoder>());
  }
  return steps;
}

DecoderStream::DecoderStream(const Steps& steps) {
  TokenSink* next = end_.get();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    sinks_.push_back((*step)->start(*next));
    next = sinks_.back().get();
  }
}

void DecoderStream::push(std::string_view token) {
  TokenSink& first = sinks_.empty() ? *end_ : *sinks_.back();
  first.text(token);
  first.end_token();
}

void DecoderStream::finish() { (sinks_.empty() ? *end_ : *sinks_.back()).finish(); }

}  // namespace tpinfer
