#include "engine/collective_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensorflow/core/platform/strcat.h"

namespace tensorflow_ipu {

using tensorflow::CancellationManager;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::strings::StrCat;

namespace {

// From this size on, each process computes a part of an output that is the same for all. With two
// processes that moves no fewer bytes, so it pays later: by less computing, and smaller tensors.
// Chosen with benchmarks/distributed.py.
constexpr size_t kSharedBytes = 256 << 10;
constexpr size_t kSharedBytesOfTwo = 512 << 10;
// Parts of an output begin at multiples of so many elements, so that no two are in one cache line.
constexpr int64_t kPartUnit = 64;

char* Bytes(const Tensor& tensor) { return static_cast<char*>(tensor.data()); }

// Bytes [begin, begin + size) of a tensor, in its own buffer.
Tensor View(const Tensor& tensor, int64_t begin, int64_t size) {
  Tensor bytes;
  const auto all = static_cast<int64_t>(tensor.TotalBytes());
  TF_CHECK_OK(bytes.BitcastFrom(tensor, tensorflow::DT_UINT8, {all}));
  return bytes.Slice(begin, begin + size);
}

// Elements [begin, end) of a tensor as a vector, in its own buffer.
Tensor Elements(const Tensor& tensor, int64_t begin, int64_t end) {
  Tensor vector;
  TF_CHECK_OK(vector.BitcastFrom(tensor, tensor.dtype(), {tensor.NumElements()}));
  return vector.Slice(begin, end);
}

// Runs of bytes one after the other.
Tensor Pack(const Tensor& tensor, const Extent& extent) {
  if (extent.bytes() == 0) return Tensor(tensorflow::DT_UINT8, {0});
  if (extent.rows == 1) return View(tensor, extent.begin, extent.width);
  Tensor packed(tensorflow::DT_UINT8, {extent.bytes()});
  for (int64_t row = 0; row < extent.rows; ++row) {
    std::memcpy(Bytes(packed) + row * extent.width,
                Bytes(tensor) + extent.begin + row * extent.stride, extent.width);
  }
  return packed;
}

void Unpack(const Tensor& packed, const Extent& extent, const Tensor& tensor) {
  for (int64_t row = 0; row < extent.rows; ++row) {
    std::memcpy(Bytes(tensor) + extent.begin + row * extent.stride,
                Bytes(packed) + row * extent.width, extent.width);
  }
}

}  // namespace

MemberRange GroupSpan::MembersOf(int place) const {
  const int begin = (first_instance() + place) * per_instance_;
  return {std::max(first_, begin) - first_,
          std::min(first_ + size_, begin + per_instance_) - first_};
}

void CollectiveExchange::Start(const Collective& collective, Instances* instances,
                               const GroupSpan& span, const std::string& key,
                               const ExchangeLabel& label, std::vector<OpKernelContext*> members,
                               OpKernelContext* last, CancellationManager* cancellation,
                               tensorflow::StatusCallback done) {
  auto* exchange = new CollectiveExchange(collective, instances, span, key, label,
                                          std::move(members), last, cancellation, std::move(done));
  const Status status = exchange->GatherOwn();
  if (!status.ok()) return exchange->End(status);
  exchange->ExchangeInputs();
}

CollectiveExchange::CollectiveExchange(const Collective& collective, Instances* instances,
                                       const GroupSpan& span, const std::string& key,
                                       const ExchangeLabel& label,
                                       std::vector<OpKernelContext*> members, OpKernelContext* last,
                                       CancellationManager* cancellation,
                                       tensorflow::StatusCallback done)
    : collective_(collective),
      instances_(instances),
      span_(span),
      key_(key),
      label_(label),
      members_(std::move(members)),
      last_(last),
      cancellation_(cancellation),
      done_(std::move(done)) {}

Status CollectiveExchange::GatherOwn() {
  for (OpKernelContext* member : members_) TF_RETURN_IF_ERROR(collective_.Give(member, &own_));
  work_ = ChooseWork();
  return tensorflow::OkStatus();
}

CollectiveExchange::Work CollectiveExchange::ChooseWork() const {
  if (!collective_.IsElementwise()) return Work::kAllByAll;
  const bool are_two = span_.instances() == 2;
  if (own_[0].TotalBytes() >= (are_two ? kSharedBytesOfTwo : kSharedBytes)) {
    return Work::kPartByEach;
  }
  // Two messages in a row, in place of many at the same time.
  return are_two ? Work::kAllByAll : Work::kAllByFirst;
}

void CollectiveExchange::ExchangeInputs() {
  std::vector<Parcel> parcels;
  for (int place = 0; place < span_.instances(); ++place) {
    if (place == span_.place()) {
      for (const Tensor& own : own_)
        inputs_.push_back(work_ == Work::kAllByAll ? own : PartOf(own));
      continue;
    }
    Parcel parcel{span_.first_instance() + place, {}, {}};
    GiveTo(place, &parcel);
    TakeFrom(place, &parcel);
    if (AreToMeet(place)) parcels.push_back(std::move(parcel));
  }
  Exchange("in", /*compare=*/true, std::move(parcels),
           work_ == Work::kAllByAll ? &CollectiveExchange::Run : &CollectiveExchange::RunPart);
}

// Whether this process and that in another place have something to tell each other.
bool CollectiveExchange::AreToMeet(int place) const {
  return work_ != Work::kAllByFirst || place == 0 || span_.place() == 0;
}

void CollectiveExchange::GiveTo(int place, Parcel* parcel) const {
  const int first = span_.MembersOf(span_.place()).begin;
  const size_t each = own_.size() / members_.size();
  for (size_t i = 0; i < own_.size(); ++i) {
    const int from = first + static_cast<int>(i / each);
    parcel->give.push_back(Pack(own_[i], NeededAt(place, own_[i], from)));
  }
}

void CollectiveExchange::TakeFrom(int place, Parcel* parcel) {
  const MemberRange theirs = span_.MembersOf(place);
  const size_t each = own_.size() / members_.size();
  for (size_t i = 0; i < theirs.size() * each; ++i) {
    const Tensor& same = own_[i % each];
    const Extent needed = NeededAt(span_.place(), same, theirs.begin + static_cast<int>(i / each));
    if (work_ != Work::kAllByAll) {
      inputs_.push_back(Tensor(same.dtype(), PartOf(same).shape()));
      parcel->take.push_back(View(inputs_.back(), 0, needed.bytes()));
      continue;
    }
    inputs_.emplace_back(same.dtype(), same.shape());
    if (needed.rows > 1) {
      Tensor piece(tensorflow::DT_UINT8, {needed.bytes()});
      packed_.push_back({piece, inputs_.size() - 1, needed});
      parcel->take.push_back(std::move(piece));
    } else {
      parcel->take.push_back(Pack(inputs_.back(), needed));
    }
  }
}

Extent CollectiveExchange::NeededAt(int place, const Tensor& given, int from) const {
  if (work_ == Work::kAllByAll)
    return collective_.Needed(given, from, span_.MembersOf(place), span_.size());
  const int64_t element = tensorflow::DataTypeSize(given.dtype());
  const int64_t begin = PartBegin(place), end = PartBegin(place + 1);
  return {begin * element, (end - begin) * element, 0, 1};
}

int64_t CollectiveExchange::PartBegin(int place) const {
  const int64_t elements = own_[0].NumElements();
  if (work_ == Work::kAllByFirst) return place == 0 ? 0 : elements;
  const int64_t units = (elements + kPartUnit - 1) / kPartUnit;
  return std::min(units * place / span_.instances() * kPartUnit, elements);
}

// The elements that this process computes, of an input or the output.
Tensor CollectiveExchange::PartOf(const Tensor& tensor) const {
  return Elements(tensor, PartBegin(span_.place()), PartBegin(span_.place() + 1));
}

void CollectiveExchange::Run() {
  for (const Packed& packed : packed_) Unpack(packed.piece, packed.extent, inputs_[packed.input]);
  End(collective_.Run(inputs_, span_.MembersOf(span_.place()).begin, members_));
}

void CollectiveExchange::RunPart() {
  const Tensor& input = own_[0];
  const Status status = last_->allocate_temp(input.dtype(), input.shape(), &output_);
  if (!status.ok()) return End(status);
  const int64_t element = tensorflow::DataTypeSize(input.dtype());
  const auto part_of = [&](int place) {
    const int64_t begin = PartBegin(place);
    return View(output_, begin * element, (PartBegin(place + 1) - begin) * element);
  };
  Tensor part = PartOf(output_);
  collective_.RunPart(inputs_, last_, &part);
  std::vector<Parcel> parcels;
  for (int place = 0; place < span_.instances(); ++place) {
    if (place == span_.place() || !AreToMeet(place)) continue;
    parcels.push_back({span_.first_instance() + place, {part_of(span_.place())}, {part_of(place)}});
  }
  Exchange("out", /*compare=*/false, std::move(parcels), &CollectiveExchange::SetOutputs);
}

void CollectiveExchange::SetOutputs() {
  for (OpKernelContext* member : members_) member->set_output(0, output_);
  End(tensorflow::OkStatus());
}

void CollectiveExchange::Exchange(const char* round, bool compare, std::vector<Parcel> parcels,
                                  void (CollectiveExchange::*next)()) {
  instances_->Exchange(StrCat(key_, ";", round), label_, compare, std::move(parcels), cancellation_,
                       [this, next](const Status& status) {
                         // What follows would keep a thread of the transport.
                         (*last_->runner())([this, next, status] {
                           if (!status.ok()) return End(status);
                           (this->*next)();
                         });
                       });
}

void CollectiveExchange::End(const Status& status) {
  const tensorflow::StatusCallback done = std::move(done_);
  delete this;
  done(status);
}

}  // namespace tensorflow_ipu
